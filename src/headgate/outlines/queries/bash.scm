(function_definition name: (word) @name) @function
(command name: (command_name) @callee argument: (_) @import (#any-of? @callee "source" "."))
(comment) @comment
[(string) (raw_string) (heredoc_body)] @string
