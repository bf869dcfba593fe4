"""How is a task written as Kubernetes would write its pods?"""

from __future__ import annotations

from preflight.launch.field import Field
from preflight.launch.manifests.group import Group
from preflight.launch.text.located import Located


def by_bash(held: Located) -> Located:
    """A script as the words of a container's command."""
    shell = [Located(word, held.line, word) for word in ("bash", "-c")]
    return Located([*shell, Located(held.text, held.line, held.text)], held.line)


def group_of_nodes(words: Located, env: list[Located], gpus: Located | None, count: Field[int], line: int) -> Group:
    """The nodes of a task, as Kubernetes would write pods of one template."""
    limits = Located({"nvidia.com/gpu": gpus} if gpus is not None else {}, line)
    resources = Located({"limits": limits}, line)
    container = Located({"command": words, "env": Located(env, line), "resources": resources}, line)
    pod = Located({"containers": Located([container], line)}, line)
    return Group(pod, count, "node", knows_volumes=False)
