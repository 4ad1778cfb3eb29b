"""Renders the page of paytokenctl audit report from its JSON, for recount-report."""
import json, re

def canonical(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for mark, by in (("<", "\\u003c"), ("\x7f", "\\u007f")): text = text.replace(mark, by)
    return re.sub(r'\\(\\|"|b|f)', lambda found: {"b": "\\u0008", "f": "\\u000c"}.get(found[1], found[0]), text)

class Template:
    """A template for HTML without logic. Sources/Records/AuditReport/Page/PageTemplate.swift describes the tags."""
    FORMATS = ("grouped", "second", "day", "short", "figure", "json")
    INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
                           "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
                           "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")

    def __init__(self, text):
        lines, source = [line.lstrip(" ") for line in text.split("\n")], ""
        for place, line in enumerate(lines):
            is_tag = line.startswith(("{{#", "{{?", "{{^", "{{/", "{{!")) and line.find("}}") == len(line) - 2
            source += line if is_tag or place == len(lines) - 1 else line + "\n"
        self.rest = source
        self.parts = self.parse(None)

    def parse(self, end):
        parts: list = []
        while "{{" in self.rest:
            text, _, rest = self.rest.partition("{{")
            content, close, self.rest = rest.partition("}}")
            if not close or not content: raise ValueError("an open tag")
            parts.append(text)
            kind, name = content[0], content[1:]
            if kind == "!": continue
            if kind == "/":
                if name != end: raise ValueError(f"{name} closes {end}")
                return parts
            if kind in "#?^":
                name, _, separator = name.partition("|")
                path, equal, value = name.partition("=")
                parts.append((kind, self.path(path), value if equal else None, separator, self.parse(path)))
            else:
                path, form, name = content.partition("|")
                if form and name not in self.FORMATS: raise ValueError(f"no format {name}")
                parts.append((self.path(path), name))
        if end is not None: raise ValueError(f"{end} is not closed")
        return parts + [self.rest]

    @staticmethod
    def path(text): return [name for name in text.split(".") if name]

    def render(self, value): return "".join(self.write(self.parts, value))

    @staticmethod
    def find(context, path):
        for name in path: context = context.get(name) if isinstance(context, dict) else None
        return context

    @staticmethod
    def is_present(value, equal):
        return value is not None and value is not False and value != [] and (equal is None or value == equal)

    def write(self, parts, context):
        for part in parts:
            if isinstance(part, str): yield part
            elif len(part) == 2: yield self.text(self.find(context, part[0]), part[1])
            else:
                kind, path, equal, separator, inner = part
                found = self.find(context, path)
                if kind != "#":
                    if self.is_present(found, equal) == (kind == "?"): yield from self.write(inner, context)
                elif self.is_present(found, None):
                    for place, element in enumerate(found if isinstance(found, list) else [found]):
                        if place: yield separator
                        yield from self.write(inner, element)

    def figure(self, value):
        count, number, record = (self.find(value, [name]) for name in ("count", "number", "record"))
        text = self.text(count, "grouped")
        if number is not None: return f'<a href="#f{self.text(number, "")}">{text}</a>'
        return text + (f' <span class="place">({self.text(record, "")})</span>' if record is not None else "")

    def text(self, value, form):
        if value is None: return "–"
        if form == "json": return canonical(value)
        if form == "figure": return self.figure(value)
        text = ("no", "yes")[value] if isinstance(value, bool) else str(value) if isinstance(value, (str, int)) else ""
        if form == "grouped": text = f"{int(text):,}" if re.fullmatch("-?[0-9]{1,18}", text) else text
        if form == "second": text = text[:19].replace("T", " ")
        if form == "day": text = text[:10]
        if form == "short": text = text[:8] + "…"
        for mark, by in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")): text = text.replace(mark, by)
        return self.INVISIBLE.sub("\ufffd", text)
