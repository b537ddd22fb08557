"""What an eye sees of a page at once: text that is cut off, lies over other text or is faint, columns that are gone,
pictures that are not whole or whose letters are too small to be read.

The page is measured as it stands, with all figures drawn. A rectangle counts as far as no box around it clips it.
"""

from dataclasses import dataclass
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

Scheme = Literal["light", "dark"]
_AXE = Axe()
_SET_ASIDE = """() => {
  const drawings = [...document.querySelectorAll(".plot, svg:not(.plot svg)")];
  window.setAside = drawings.map((one) => [one, [...one.childNodes]]);
  for (const [one] of window.setAside) one.replaceChildren();
}"""
_PUT_BACK = "() => { for (const [one, drawn] of window.setAside) one.replaceChildren(...drawn); }"
_CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}

_LOOK = """() => {
  const clips = new Map();
  // The part of the window in which what is inside an element can be seen, and whether scrolling shows the rest.
  const clipOf = (element) => {
    if (!element || element === document.documentElement || element === document.body) {
      return { left: 0, top: -1e6, right: 1e6, bottom: 1e6, scrolls: false };
    }
    if (clips.has(element)) return clips.get(element);
    let clip = clipOf(element.parentElement);
    const style = getComputedStyle(element);
    const isFrame = element instanceof SVGSVGElement && style.overflow !== "visible";
    if (isFrame || (!(element instanceof SVGElement) && style.overflowX !== "visible")) {
      const own = element.getBoundingClientRect();
      clip = {
        left: Math.max(clip.left, own.left), right: Math.min(clip.right, own.right),
        top: Math.max(clip.top, own.top), bottom: Math.min(clip.bottom, own.bottom),
        scrolls: clip.scrolls || ["auto", "scroll"].includes(style.overflowX),
      };
    }
    clips.set(element, clip);
    return clip;
  };
  const isShown = (element) =>
    element.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true });
  const texts = [];
  const cut = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const words = node.textContent.trim();
    const parent = node.parentElement;
    if (!words || ["SCRIPT", "STYLE", "OPTION", "NOSCRIPT"].includes(parent.tagName) || !isShown(parent)) continue;
    const svgText = parent.closest("text");
    if (parent.closest("title") || (svgText && seen.has(svgText))) continue;
    if (parent.closest(".skip")) continue;
    seen.add(svgText);
    const range = document.createRange();
    range.selectNodeContents(node);
    const frame = svgText?.ownerSVGElement;
    const clip = clipOf(svgText ? frame : parent);
    for (const box of svgText ? [svgText.getBoundingClientRect()] : range.getClientRects()) {
      if (box.width < 1 || box.height < 1) continue;
      const shown = {
        left: Math.max(box.left, clip.left), right: Math.min(box.right, clip.right),
        top: Math.max(box.top, clip.top), bottom: Math.min(box.bottom, clip.bottom),
      };
      if (shown.right - shown.left < 1 || shown.bottom - shown.top < 1) {
        // Nothing of it is seen: it is meant to make room, but never in a drawing.
        if (svgText && !clip.scrolls) cut.push(words);
        continue;
      }
      const missing = [box.width - (shown.right - shown.left), box.height - (shown.bottom - shown.top)];
      const isCut = missing[0] > 2 || missing[1] > 0.4 * box.height;
      if (isCut && !clip.scrolls) cut.push(words);
      texts.push({ ...shown, words, element: svgText ?? parent });
    }
  }
  const overlapping = [];
  // A line's box is higher than its letters.
  const meets = (one, other) => {
    const inset = 0.25 * Math.min(one.bottom - one.top, other.bottom - other.top);
    return Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2
      && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 2 * inset;
  };
  texts.sort((one, other) => one.top - other.top);
  texts.forEach((one, index) => {
    for (let next = index + 1; next < texts.length && texts[next].top < one.bottom; next += 1) {
      if (meets(one, texts[next]) && one.element !== texts[next].element) {
        overlapping.push(`${one.words.slice(0, 40)} | ${texts[next].words.slice(0, 40)}`);
      }
    }
  });
  const tools = [...document.querySelectorAll("button, select, .modebar")].filter(isShown);
  for (const tool of tools) {
    const clip = clipOf(tool.parentElement);
    const box = tool.getBoundingClientRect();
    const shown = {
      left: Math.max(box.left, clip.left), right: Math.min(box.right, clip.right), top: box.top, bottom: box.bottom,
    };
    for (const text of texts) {
      if (tool.contains(text.element) || !meets(shown, text)) continue;
      overlapping.push(`${tool.className || tool.textContent} | ${text.words}`);
    }
  }
  const scrolling = [...document.querySelectorAll(".scroll")].filter(isShown)
    .filter((box) => box.scrollWidth > box.clientWidth + 1);
  const cutColumns = scrolling
    .map((box) => `${box.getAttribute("aria-label")}: ${box.scrollWidth} in ${box.clientWidth} px`);
  const unfoldedColumns = cutColumns.filter((_, index) => !scrolling[index].closest("details[data-was-folded]"));
  const pictures = [...document.querySelectorAll("svg[role=img], .plot, .dots")].filter(isShown)
    .filter((one) => !one.parentElement.closest("svg, .plot"));
  const nameOf = (one) => (one.getAttribute("aria-label") ?? one.getAttribute("class") ?? one.tagName).slice(0, 60);
  const halved = [];
  const small = [];
  const LEAST = 10;
  for (const picture of pictures) {
    for (let box = picture; box && box.tagName !== "MAIN"; box = box.parentElement) {
      if (box.scrollWidth <= box.clientWidth + 1) continue;
      halved.push(`${nameOf(picture)}: ${box.scrollWidth} in ${box.clientWidth} px of ${box.tagName}.${box.className}`);
    }
    const frame = picture.getBoundingClientRect();
    if (frame.left < 0 || frame.right > window.innerWidth + 1) halved.push(`${nameOf(picture)}: beyond the window`);
    const walk = document.createTreeWalker(picture, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const holder = node.parentElement.closest("text") ?? node.parentElement;
      if (!node.textContent.trim() || holder.closest("title, style") || !isShown(holder)) continue;
      const words = `${nameOf(picture)}: ${node.textContent.trim().slice(0, 40)}`;
      const drawn = holder instanceof SVGElement ? holder.getScreenCTM() : { a: 1, b: 0 };
      const scale = Math.hypot(drawn.a, drawn.b);
      const size = parseFloat(getComputedStyle(node.parentElement).fontSize) * scale;
      if (size < LEAST) small.push(`${words}: ${size.toFixed(1)} px`);
      const own = holder.getBoundingClientRect();
      const isOutside = own.left < frame.left - 1 || own.right > frame.right + 1
        || own.top < frame.top - 1 || own.bottom > frame.bottom + 1;
      if (own.width >= 1 && isOutside) halved.push(`${words}: beyond its picture`);
    }
  }
  const boxless = [...document.querySelectorAll("table")].filter(isShown)
    .filter((table) => !table.closest(".scroll"))
    .filter((table) => table.scrollWidth > table.parentElement.clientWidth + 1)
    .map((table) => table.className);
  return {
    cut, overlapping, cutColumns, unfoldedColumns, boxless, halved, small, pictures: pictures.length,
    texts: texts.length, width: document.documentElement.scrollWidth,
  };
}"""

_FAINT_IN_DRAWINGS = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = parts(colour).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!(at instanceof SVGElement) && (parts(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("svg text")]
    .filter((text) => text.checkVisibility({ contentVisibilityAuto: true }) && text.textContent.trim())
    .map((text) => {
      const [one, other] = [getComputedStyle(text).fill, behind(text.ownerSVGElement)].map(luminance);
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      return [ratio, `${text.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`];
    })
    .filter(([ratio]) => ratio < 4.5).map(([, words]) => words);
}"""


@dataclass(frozen=True)
class Seen:
    """What was seen of a page at one width in one scheme; each list should be empty."""

    cut: list[str]
    """Text of which a part is not to be seen."""
    overlapping: list[str]
    """Pairs of text, or a tool and text, that lie over each other."""
    cut_columns: list[str]
    """Boxes whose content is wider than they are, so that one would have to scroll."""
    unfolded_columns: list[str]
    """Those of them that nobody had to unfold: outside of ``details`` with ``data-was-folded``."""
    boxless: list[str]
    """Tables that are wider than what they stand in, without a box that scrolls."""
    halved: list[str]
    """Pictures of which a part is not to be seen without scrolling sideways, or is drawn beyond them."""
    small: list[str]
    """Text of pictures whose letters are lower than 10 px as they are drawn."""
    faint: list[str]
    """Text with less contrast than WCAG 2.1 asks for: of the page by axe-core, of drawings by us."""
    pictures: int
    texts: int
    """How many pieces of text were looked at."""
    width: int


def look(page: Page, *, with_axe: bool = True) -> Seen:
    """Look at a page as it stands; all that is to be judged must be unfolded and drawn.

    Args:
        page: It is scrolled to its top.
        with_axe: Whether axe-core judges the contrast of its text, which takes seconds.
    """
    page.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
    found: dict[str, Any] = page.evaluate(_LOOK)
    faint = _faint_by_axe(page) if with_axe else []
    return Seen(
        cut=found["cut"],
        overlapping=found["overlapping"],
        cut_columns=found["cutColumns"],
        unfolded_columns=found["unfoldedColumns"],
        boxless=found["boxless"],
        halved=found["halved"],
        small=found["small"],
        pictures=found["pictures"],
        faint=[*faint, *page.evaluate(_FAINT_IN_DRAWINGS)],
        texts=found["texts"],
        width=found["width"],
    )


def _faint_by_axe(page: Page) -> list[str]:
    # Drawings of thousands of elements, none of which axe-core judges, take it half a minute.
    page.evaluate(_SET_ASIDE)
    judged = _AXE.run(page, options=_CONTRAST).response
    page.evaluate(_PUT_BACK)
    return [
        f"{node['target']}: {node['any'][0]['message']}"
        for violation in judged["violations"]
        for node in violation["nodes"]
    ]
