"""From nodes to DirectML's operators: translators by family, patterns of several nodes, rules for shapes."""
