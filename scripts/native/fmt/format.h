// What Kompute's sources use of fmt, in the standard library's terms, so that fmt need not be here and goes into no wheel.
#pragma once

#include <sstream>
#include <string>

namespace fmt {

template<typename... Values>
std::string format(std::string text, const Values&... values) {
    auto put = [&text, from = size_t{0}](const auto& value) mutable {
        std::ostringstream written;
        written << value;
        const size_t place = text.find("{}", from);
        if (place != std::string::npos) {
            text.replace(place, 2, written.str());
            from = place + written.str().size();
        }
    };
    (put(values), ...);
    return text;
}

}  // namespace fmt
