// Compiles many GLSL compute shaders in one process, and validates SPIR-V.
//
// glslangValidator spends most of its time on its own start, when it builds the tables of GLSL's built-in functions.
// This program builds them once and writes the same bytes as
//
//     glslangValidator -V --target-env vulkan1.1 -S comp --nan-clamp -g0 -I… -D… FILE
//
// and says what `spirv-val --target-env vulkan1.1` says. dmlvk/kernels/library/glslang.py runs it, scripts/build_compiler.py
// builds it against the libraries of glslang and SPIRV-Tools; scripts/cross/glslang.py for other systems, from glslang's
// source, WITHOUT_VALIDATOR.
//
//     dmlvk-glslang --version    one line: "Glslang Version: 11:12.0.0"
//     dmlvk-glslang              answers requests until the standard input ends, or nobody asks for ten seconds
//
// A request is a line with a word and the lengths in bytes of its parts, which follow:
//
//     compile ROOT NAME FOLDERS PREAMBLE SOURCE
//                        a shader: the directory that all names are relative to, its file's name, where #include looks
//                        besides the including file's directory (a line each), #define lines, GLSL text
//     compile-with-names ROOT NAME FOLDERS PREAMBLE SOURCE
//                        the same, and the module keeps the shader's names
//     validate MODULE    a module in this machine's byte order
//
// An answer is a line "STATUS MODULE MESSAGE" (status 0: done, 1: refused; then two lengths) and two parts: the module,
// empty for `validate`, and the words of the tools, which a shader that compiles may have too (warnings).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#else
#include <poll.h>
#endif
#include <unistd.h>

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>
#include <glslang/build_info.h>
#ifndef WITHOUT_VALIDATOR
#include <spirv-tools/libspirv.h>
#endif

namespace {

std::string directory_of(const std::string& path)
{
    const std::size_t slash = path.find_last_of('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

struct Job {
    std::string root;
    std::string name;
    std::string folders;
    std::string preamble;
    std::string source;
    bool keeps_names;
};

// Looks for #include "…" beside the including files, the innermost first, then in the folders, the last first: as
// glslangValidator does.
class Includer final : public glslang::TShader::Includer {
public:
    explicit Includer(const Job& job) : root_(job.root), beside_{directory_of(job.name)}
    {
        std::istringstream lines(job.folders);
        for (std::string line; std::getline(lines, line);)
            folders_.push_back(line);
    }

    IncludeResult* includeLocal(const char* header, const char*, std::size_t depth) override
    {
        beside_.resize(depth);  // without the directories of files that have been read to their end
        for (const auto* places : {&beside_, &folders_})
            for (auto place = places->rbegin(); place != places->rend(); ++place)
                if (IncludeResult* found = read(*place + '/' + header))
                    return found;
        return nullptr;
    }

    void releaseInclude(IncludeResult* result) override
    {
        if (result != nullptr) {
            delete static_cast<std::string*>(result->userData);
            delete result;
        }
    }

private:
    IncludeResult* read(const std::string& path)
    {
        std::ifstream file(std::filesystem::u8path(root_ + '/' + path), std::ios::binary);  // Windows has its own code page
        if (!file)
            return nullptr;
        auto text = std::make_unique<std::string>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        beside_.push_back(directory_of(path));
        const char* data = text->data();
        const std::size_t size = text->size();
        return new IncludeResult(path, data, size, text.release());
    }

    const std::string& root_;
    std::vector<std::string> beside_;
    std::vector<std::string> folders_;
};

struct Answer {
    bool done = false;
    std::string module;
    std::string message;
};

Answer compile(const Job& job)
{
    constexpr auto MESSAGES = static_cast<EShMessages>(EShMsgDefault | EShMsgSpvRules | EShMsgVulkanRules);
    constexpr int CLIENT_INPUT_SEMANTICS = 100;
    constexpr int DEFAULT_VERSION = 110;
    Answer answer;
    glslang::TShader shader(EShLangCompute);
    const char* text = job.source.data();
    const int length = static_cast<int>(job.source.size());
    const char* name = job.name.c_str();
    shader.setStringsWithLengthsAndNames(&text, &length, &name, 1);
    shader.setPreamble(job.preamble.c_str());
    shader.setNanMinMaxClamp(true);
    shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, CLIENT_INPUT_SEMANTICS);
    shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_1);
    shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_3);
    Includer includer(job);
    glslang::TProgram program;
    bool good = shader.parse(GetDefaultResources(), DEFAULT_VERSION, false, MESSAGES, includer);
    answer.message = std::string(shader.getInfoLog()) + shader.getInfoDebugLog();
    if (good) {
        program.addShader(&shader);
        good = program.link(MESSAGES) && program.mapIO();
        answer.message += std::string(program.getInfoLog()) + program.getInfoDebugLog();
    }
    if (good) {
        std::vector<unsigned int> words;
        spv::SpvBuildLogger logger;
        glslang::SpvOptions options;
        options.generateDebugInfo = false;
        options.stripDebugInfo = !job.keeps_names;
        glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), words, &logger, &options);
        answer.message += logger.getAllMessages();
        answer.module.assign(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0]));
    }
    answer.done = good;
    return answer;
}

#ifdef WITHOUT_VALIDATOR
class Validator {
public:
    Answer validate(const std::string&) { throw std::runtime_error("this program was built without SPIRV-Tools"); }
};
#else
class Validator {
public:
    Validator() : context_(spvContextCreate(SPV_ENV_VULKAN_1_1), spvContextDestroy) {}
    Answer validate(const std::string& module);

private:
    const std::unique_ptr<spv_context_t, void (*)(spv_context)> context_;
};

Answer Validator::validate(const std::string& module)
{
    Answer answer;
    std::vector<std::uint32_t> words(module.size() / sizeof(std::uint32_t));
    std::memcpy(words.data(), module.data(), words.size() * sizeof(words[0]));
    spv_const_binary_t binary{words.data(), words.size()};
    spv_diagnostic diagnostic = nullptr;
    const spv_result_t result = spvValidate(context_.get(), &binary, &diagnostic);
    answer.done = result == SPV_SUCCESS;
    if (diagnostic != nullptr) {
        std::ostringstream said;
        said << "error: line " << diagnostic->position.index << ": " << diagnostic->error;
        answer.message = said.str();
        spvDiagnosticDestroy(diagnostic);
    } else if (!answer.done) {
        answer.message = "error " + std::to_string(result);
    }
    return answer;
}
#endif

#ifdef _WIN32
bool waits_in_vain() { return false; }  // it ends when the pipe is closed

void set_binary()
{
    _setmode(STDIN_FILENO, _O_BINARY);
    _setmode(STDOUT_FILENO, _O_BINARY);
}
#else
void set_binary() {}

bool waits_in_vain()
{
    constexpr int MILLISECONDS = 10000;
    pollfd input{0, POLLIN, 0};
    return std::cin.rdbuf()->in_avail() <= 0 && poll(&input, 1, MILLISECONDS) == 0;
}
#endif

void write_all(int file, const std::string& bytes)
{
    for (std::size_t written = 0; written < bytes.size();) {
        const ssize_t count = write(file, bytes.data() + written, bytes.size() - written);
        if (count < 0)
            throw std::runtime_error("nobody reads the answer");
        written += static_cast<std::size_t>(count);
    }
}

int serve()
{
    set_binary();
    const int answers = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // glslang itself writes there, now and then
    Validator validator;
    for (std::string line; !waits_in_vain() && std::getline(std::cin, line);) {
        std::istringstream head(line);
        std::string word;
        head >> word;
        std::vector<std::string> parts;
        for (std::size_t size; head >> size;)
            parts.emplace_back(size, '\0');
        for (std::string& part : parts)
            if (!part.empty() && !std::cin.read(&part[0], static_cast<std::streamsize>(part.size())))
                throw std::runtime_error("the request ends too early");
        Answer answer;
        if (word == "compile" && parts.size() == 5)
            answer = compile({parts[0], parts[1], parts[2], parts[3], parts[4], false});
        else if (word == "compile-with-names" && parts.size() == 5)
            answer = compile({parts[0], parts[1], parts[2], parts[3], parts[4], true});
        else if (word == "validate" && parts.size() == 1)
            answer = validator.validate(parts[0]);
        else
            throw std::runtime_error("no such request: " + line);
        std::ostringstream sizes;
        sizes << (answer.done ? 0 : 1) << ' ' << answer.module.size() << ' ' << answer.message.size() << '\n';
        write_all(answers, sizes.str() + answer.module + answer.message);
    }
    return 0;
}

}  // namespace

int main(int count, char** arguments)
{
    if (count > 1) {
        if (count > 2 || std::string(arguments[1]) != "--version") {
            std::fprintf(stderr, "usage: dmlvk-glslang [--version]; without it, requests come on the standard input\n");
            return 2;
        }
        std::printf("Glslang Version: %d:%d.%d.%d%s\n", glslang::GetSpirvGeneratorVersion(), GLSLANG_VERSION_MAJOR,
                    GLSLANG_VERSION_MINOR, GLSLANG_VERSION_PATCH, GLSLANG_VERSION_FLAVOR);
        return 0;
    }
    std::ios::sync_with_stdio(false);
    std::cin.tie(nullptr);
    glslang::InitializeProcess();
    int status = 2;
    try {
        status = serve();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "dmlvk-glslang: %s\n", error.what());
    }
    std::_Exit(status);  // the operating system frees everything at once, which is faster
}
