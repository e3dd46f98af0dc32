"""The verb `completion`: scripts by which shells complete the command line, made from the table of verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.cli.command import Command
from gateway.cli.verbs import VERBS, Argument, choice, find_words, load_verbs, verb
from gateway.config.load import load_defaults

_FILE: Final = "FILE"
"""The help's name of the value of an argument that is a file."""
_SHARED: Final = ("--config", "--help")


@dataclass(frozen=True, slots=True)
class _Place:
    """The words and files that may follow some words of a command line."""

    at: str
    """The words: "", `account` or `account add`."""
    words: Mapping[str, str]
    """Verbs that may follow, and what they are for."""
    options: Sequence[Argument] = ()
    positions: Sequence[Argument] = ()

    @property
    def follow(self) -> list[str]:
        """All words that may follow, but for values."""
        known = [word for one in self.positions for word in one.parameters.get("choices", ())]
        root = () if self.at else ("--version",)
        return [*self.words, *known, *(one.name for one in self.options), *_SHARED, *root]

    @property
    def takes_file(self) -> bool:
        return any(one.parameters.get("metavar") == _FILE for one in self.positions)


def _list_places() -> list[_Place]:
    words = find_words()
    load_verbs(words)
    places = [_Place("", words)]
    for word in words:
        members = {
            path.removeprefix(f"{word} "): one.summary
            for path, one in VERBS.items()
            if path.startswith(f"{word} ")
        }
        if members and word not in VERBS:
            places.append(_Place(word, members))
    for path, entry in VERBS.items():
        arguments = (*entry.arguments, *entry.either)
        options = [one for one in arguments if one.name.startswith("-")]
        places.append(_Place(path, {}, options, [one for one in arguments if one not in options]))
    return places


def _takes_value(option: Argument) -> bool:
    return option.parameters.get("action") != "store_true"


# ---- bash and zsh: the same cases ----------------------------------------------------------------

_CASES: Final = r"""# Notes a word of the command line: a verb, or an option, which may take the next word as its value.
_gateway_note() {
  if ! _gateway_wants_value; then
    case "${at:+$at }$word" in
      PLACES) at="${at:+$at }$word" ;;
    esac
  fi
  prev=$word
}

# Says whether the last word is an option whose value comes next.
_gateway_wants_value() {
  case "$at $prev" in
    VALUES) return 0 ;;
  esac
  return 1
}

# Finds what may come next.
_gateway_find() {
  found= files=
  case "$at $prev" in
CHOICES
    FILES) files=1; return ;;
  esac
  if _gateway_wants_value; then return; fi
  case $at in
FOLLOW
  esac
}
"""
_BASH: Final = r"""# Completes the commands of gateway in bash. In ~/.bashrc: source <(gateway completion bash)

CASES
_gateway() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev= at= word found files i
  for ((i = 1; i < COMP_CWORD; i++)); do word=${COMP_WORDS[i]}; [[ $word = '=' ]] || _gateway_note; done
  if [[ $cur = '=' ]]; then cur=; fi
  _gateway_find
  COMPREPLY=($(compgen -W "$found" -- "$cur"))
  if [[ $files && $cur != -* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _gateway gateway gw
"""
_ZSH: Final = r"""#compdef gateway gw
# Completes the commands of gateway in zsh. In ~/.zshrc, behind compinit: source <(gateway completion zsh)

CASES
_gateway() {
  local prev= at= word found files i
  for ((i = 2; i < CURRENT; i++)); do word=$words[i]; _gateway_note; done
  _gateway_find
  if [[ -n $files ]]; then _files; fi
  compadd -- ${=found}
}
if [[ $funcstack[1] = _gateway ]]; then _gateway "$@"; else compdef _gateway gateway gw; fi
"""


def _fill_cases(script: str) -> str:
    """Fill in the cases of what stands on the line, `AT PREVIOUS`."""
    places = _list_places()
    values, files, choices = ["*' --config'"], ["*' --config'"], []
    for place in places:
        for option in filter(_takes_value, place.options):
            case = f"'{place.at} {option.name}'"
            values.append(case)
            if known := option.parameters.get("choices"):
                choices.append(f"    {case}) found='{' '.join(known)}'; return ;;")
            if option.parameters.get("metavar") == _FILE:
                files.append(case)
    follow = [
        f"    '{one.at}') found='{' '.join(one.follow)}'{' files=1' if one.takes_file else ''} ;;"
        for one in places
    ]
    filled = {
        "PLACES": "|".join(f"'{one.at}'" for one in places if one.at),
        "VALUES": "|".join(values),
        "CHOICES": "\n".join(choices),
        "FILES": "|".join(files),
        "FOLLOW": "\n".join(follow),
    }
    cases = _CASES
    for name, text in filled.items():
        cases = cases.replace(name, text)
    return script.replace("CASES\n", cases)


# ---- fish ----------------------------------------------------------------------------------------

_FISH: Final = r"""# Completes the commands of gateway in fish: gateway completion fish > ~/.config/fish/completions/gateway.fish

# Says whether these are the verbs on the command line, without options and their values.
function __gateway_at
    set -l at
    set -l skip
    for word in (commandline -opc)[2..]
        if test -n "$skip"
            set skip
        else if contains -- "$at $word" VALUES
            set skip 1
        else if test "$word" = --config
            set skip 1
        else if contains -- (string trim -- "$at $word") PLACES
            set at (string trim -- "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end

complete -c gateway -f
complete -c gateway -l config -rF -d 'the configuration file'
complete -c gateway -l help -d 'show what a command is for'
"""


def _write_fish() -> str:
    places = _list_places()
    values = (f"{one.at} {o.name}" for one in places for o in one.options if _takes_value(o))
    known = (one.at for one in places if one.at)
    script = _FISH.replace("VALUES", " ".join(map(_quote, values)))
    script = script.replace("PLACES", " ".join(map(_quote, known)))
    lines = [line for place in places for line in _write_place(place)]
    return script + "\n".join([*lines, "complete -c gw -w gateway", ""])


def _write_place(place: _Place) -> Iterator[str]:
    begin = f"complete -c gateway -n {_quote(f'__gateway_at {_quote(place.at)}')}"
    for word, said in place.words.items():
        yield f"{begin} -a {word} -d {_quote(said)}"
    for position in place.positions:
        if choices := position.parameters.get("choices"):
            yield f"{begin} -a {_quote(' '.join(choices))}"
    if place.takes_file:
        yield f"{begin} -F"
    for option in place.options:
        if choices := option.parameters.get("choices"):
            takes = f" -xa {_quote(' '.join(choices))}"
        elif _takes_value(option):
            takes = " -rF" if option.parameters.get("metavar") == _FILE else " -x"
        else:
            takes = ""
        name, said = option.name.removeprefix("--"), option.parameters.get("help", "")
        yield f"{begin} -l {name}{takes} -d {_quote(said)}"
    if not place.at:
        yield f"{begin} -l version -d 'print the version and exit'"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: Final[Mapping[str, Callable[[], str]]] = {
    "bash": lambda: _fill_cases(_BASH),
    "zsh": lambda: _fill_cases(_ZSH),
    "fish": _write_fish,
}
"""The function that makes the script of each shell."""


@verb(
    "completion",
    examples=(
        "completion bash",
        "completion zsh",
        "completion fish > ~/.config/fish/completions/gateway.fish",
    ),
    arguments=(choice("shell", tuple(SHELLS), "the shell"),),
    json=False,
    load=load_defaults,
)
def complete(command: Command, shell: str) -> None:
    command.output.print(SHELLS[shell]())
