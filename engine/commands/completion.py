"""Completion of one program's commands and options by bash, zsh and fish, as a script made of its parsers."""

import argparse
import shlex
from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish")
_BASH = """_{program}() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
  case "$COMP_CWORD:${{COMP_WORDS[1]}}:$word" in
    1:*) words="{commands}" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _{program} {program}
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
"""zsh can run bash's."""


def completion(program: str, shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """The script; files are completed wherever nothing of ours fits."""
    options = {
        name: [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
        for name, parser in parsers.items()
    }
    if shell != "fish":
        cases = "\n".join(f'    *:{name}:-*) words="{" ".join(known)}" ;;' for name, known in options.items())
        return (_ZSH if shell == "zsh" else "") + _BASH.format(
            program=program, commands=" ".join([*options, "completion"]), cases=cases
        )
    first = f"complete -c {program} -n __fish_use_subcommand -f -a"
    lines = [f"{first} {name} -d {shlex.quote(parser.description or '')}" for name, parser in parsers.items()]
    for name, known in options.items():
        lines += [f"complete -c {program} -n '__fish_seen_subcommand_from {name}' -l {word[2:]}" for word in known]
    return "\n".join(lines) + "\n"
