"""Findings as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from extproc.gateway.doctor.findings import Finding, Severity

DOCUMENT = "docs/troubleshooting.md"


def to_text(findings: Sequence[Finding], checked: Sequence[str]) -> str:
    """One paragraph for each finding, then a line that sums up."""
    lines: list[str] = []
    for finding in findings:
        rule = finding.rule
        lines += [
            f"{finding.where}: {rule.severity.name}: {rule.title} [{finding.id}]",
            *([f"  at:          {_path(finding)}"] if finding.at.source.startswith("http") else []),
            f"  found:       {finding.what}",
            f"  consequence: {rule.consequence}",
            f"  mend:        {finding.mend}",
            "",
        ]
    problems = sum(finding.rule.severity < Severity.NOTE for finding in findings)
    notes = len(findings) - problems
    names = ", ".join(checked)
    summed = f"{problems} problem{'s' * (problems != 1)}" if problems else "no problem found"
    lines.append(f"{names}: {summed}" + (f", {notes} note{'s' * (notes != 1)}" if notes else ""))
    if findings:
        lines.append(f"Each [name] is explained in {DOCUMENT}.")
    return "\n".join(lines) + "\n"


def _path(finding: Finding) -> str:
    """Where in a document that is no file."""
    return ".".join(map(str, finding.at.path)) or "the whole document"


def to_json(findings: Sequence[Finding], checked: Sequence[str]) -> str:
    """``{"checked": […], "findings": [{id, severity, file, line, path, …}]}``."""
    return (
        json.dumps(
            {
                "checked": list(checked),
                "findings": [
                    {
                        "id": finding.id,
                        "severity": finding.rule.severity.name.lower(),
                        "file": finding.at.source,
                        "line": finding.at.line,
                        "path": _path(finding),
                        "title": finding.rule.title,
                        "found": finding.what,
                        "consequence": finding.rule.consequence,
                        "mend": finding.mend,
                    }
                    for finding in findings
                ],
            },
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def exit_code(findings: Sequence[Finding]) -> int:
    """1 when anything is worse than a note."""
    return int(any(finding.rule.severity < Severity.NOTE for finding in findings))
