"use strict";
// What every page can do beyond being read: choose the colours, copy a query, sort and filter tables, fold and unfold.
// All controls are made here, so that a page without scripts shows none that would not work. Words come from #page-words.
{
  const root = document.documentElement;
  const words = JSON.parse(document.getElementById("page-words").textContent);

  const say = (key, fields = {}) => {
    let text = words[key] ?? "";
    for (const [name, value] of Object.entries(fields)) text = text.replaceAll(`{${name}}`, value);
    return text;
  };

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const button = (text, action) => {
    const element = make("button", { type: "button", textContent: text });
    element.addEventListener("click", action);
    return element;
  };

  // One place that a screen reader listens to; what is said there is seen elsewhere on the page.
  const live = make("div", { className: "hidden" });
  live.setAttribute("role", "status");
  document.body.append(live);

  // --- light and dark -----------------------------------------------------------------------------------------------

  const THEMES = ["auto", "light", "dark"];

  const addThemeButton = () => {
    const place = document.querySelector("header");
    if (!place) return;
    const control = button("", () => {
      const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
      if (next === "auto") delete root.dataset.theme;
      else root.dataset.theme = next;
      try {
        if (next === "auto") localStorage.removeItem("kvpm-theme");
        else localStorage.setItem("kvpm-theme", next);
      } catch {
        // Pages from a file may have no storage: the choice then ends with the page.
      }
      name();
      document.dispatchEvent(new CustomEvent("kvpm:theme", { detail: { theme: next } }));
    });
    const name = () => {
      control.textContent = say(`theme_${root.dataset.theme ?? "auto"}`);
    };
    control.className = "theme";
    name();
    place.append(control);
  };

  // --- queries and commands -----------------------------------------------------------------------------------------

  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  const copy = async (element) => {
    try {
      await navigator.clipboard.writeText(element.textContent);
      return true;
    } catch {
      // No clipboard for this page, or no leave to use it: the older way, which needs a selection.
      select(element);
      return document.execCommand("copy");
    }
  };

  const addCopyButton = (query) => {
    let wait = 0;
    const control = button(say("copy"), async () => {
      const done = await copy(query);
      const outcome = say(done ? "copied" : "not_copied");
      control.textContent = outcome;
      live.textContent = outcome;
      clearTimeout(wait);
      wait = setTimeout(() => {
        control.textContent = say("copy");
        live.textContent = "";
      }, 3000);
    });
    query.before(make("div", { className: "tools copy" }, control));
  };

  // --- tables -------------------------------------------------------------------------------------------------------

  // A row with the notes below it, which stay with it. A `total` row is of no group: it stays last and is never hidden.
  const groupsOf = (body) => {
    const groups = [];
    for (const row of body.rows) {
      if (row.classList.contains("total")) continue;
      if (row.classList.contains("row-notes") && groups.length) groups.at(-1).rows.push(row);
      else groups.push({ rows: [row], place: groups.length });
    }
    return groups;
  };

  const collator = new Intl.Collator(root.lang, { numeric: true, sensitivity: "base" });

  // A cell's own value, else its text; null where nothing was reported, which goes last whichever way the rows are sorted.
  const valueOf = (cell) => {
    const value = (cell?.dataset.v ?? cell?.textContent ?? "").trim();
    return value === "" || value === "–" ? null : value;
  };

  const sorted = (groups, column, sign) => {
    const keyed = groups.map((group) => ({ group, value: valueOf(group.rows[0].cells[column]) }));
    const numbers = keyed.every(({ value }) => value === null || Number.isFinite(Number(value)));
    const compare = numbers ? (a, b) => Number(a) - Number(b) : collator.compare;
    keyed.sort((a, b) => {
      if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
      return sign * compare(a.value, b.value);
    });
    return keyed.map(({ group }) => group);
  };

  const makeSortable = (table) => {
    const body = table.tBodies[0];
    const headers = [...(table.tHead?.rows[0]?.cells ?? [])];
    const groups = groupsOf(body);
    if (groups.length < 2) return;
    const show = (order) => {
      const last = [...body.rows].filter((row) => row.classList.contains("total"));
      body.append(...order.flatMap((group) => group.rows), ...last);
    };
    headers.forEach((header, column) => {
      if (!header.textContent.trim()) return;
      // Of numbers the largest is looked for, of names and times the first.
      const ways = header.classList.contains("num") ? ["descending", "ascending"] : ["ascending", "descending"];
      const control = button("", () => {
        const now = header.getAttribute("aria-sort");
        const next = now ? ways[ways.indexOf(now) + 1] : ways[0];
        headers.forEach((each) => each.removeAttribute("aria-sort"));
        if (next) header.setAttribute("aria-sort", next);
        show(next ? sorted(groups, column, next === "ascending" ? 1 : -1) : groups);
      });
      control.className = "sort";
      control.append(...header.childNodes);
      header.append(control);
    });
  };

  // Line breaks and the unbreakable space between a number and its unit are what a reader types as a space.
  const plain = (text) => text.replace(/\s+/g, " ").trim().toLocaleLowerCase(root.lang);

  const timeOf = (row) => {
    if (!row.dataset.from) return null;
    const from = Number(row.dataset.from);
    const to = Number(row.dataset.to || row.dataset.from);
    return Number.isFinite(from) && Number.isFinite(to) ? { from, to } : null;
  };

  const makeFilter = (table) => {
    const groups = groupsOf(table.tBodies[0]);
    if (groups.length < 2) return;
    const byText = table.classList.contains("filterable");
    const byTime = document.getElementById("explore") !== null && groups.some((group) => timeOf(group.rows[0]));
    if (!byText && !byTime) return;
    const box = table.closest(".scroll") ?? table;
    const tools = make("div", { className: "tools" });
    const count = make("span", { className: "muted" });
    let range = null;
    let wait = 0;

    const input = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    const tick = make("input", { type: "checkbox", disabled: true });

    const fits = (group) => {
      if (tick.checked && range) {
        const time = timeOf(group.rows[0]);
        if (!time || time.to < range.from || time.from > range.to) return false;
      }
      const wanted = plain(input.value);
      if (!wanted) return true;
      group.text ??= plain(group.rows.flatMap((row) => [...row.cells].map((cell) => cell.textContent)).join(" "));
      return group.text.includes(wanted);
    };

    const apply = () => {
      let shown = 0;
      for (const group of groups) {
        const fit = fits(group);
        shown += fit;
        for (const row of group.rows) row.hidden = !fit;
      }
      count.textContent = say("rows", { shown, total: groups.length });
      return count.textContent;
    };

    // The number of rows is told when the reader has stopped typing, not at each letter.
    const changed = () => {
      const text = apply();
      clearTimeout(wait);
      wait = setTimeout(() => {
        live.textContent = text;
      }, 700);
    };

    if (byText) {
      input.setAttribute("aria-label", say("filter_named", { table: nameOf(table) }));
      input.addEventListener("input", changed);
      tools.append(make("label", {}, make("span", { textContent: say("filter") }), " ", input));
    }
    if (byTime) {
      tick.addEventListener("change", changed);
      tools.append(make("label", {}, tick, " ", make("span", { textContent: say("in_range") })));
      const follow = (event) => {
        const { from, to } = event.detail ?? {};
        if (!Number.isFinite(from) || !Number.isFinite(to)) return;
        range = { from, to };
        tick.disabled = false;
        if (tick.checked) apply();
      };
      document.addEventListener("kvpm:range", follow);
      document.addEventListener("kvpm:ranged", follow);
    }
    tools.append(count);
    apply();
    box.before(tools);
  };

  const nameOf = (table) =>
    table.caption?.textContent.trim() || table.closest(".scroll[aria-label]")?.getAttribute("aria-label") || "";

  // --- folding, and links to what is folded -------------------------------------------------------------------------

  const addFoldButtons = (section) => {
    const folded = () => [...section.querySelectorAll("details:not(.help)")];
    const first = section.querySelector("details:not(.help)")?.closest(".question") ?? section.querySelector("details:not(.help)");
    if (!first || folded().length < 2) return;
    const all = (open) => () => folded().forEach((part) => {
      part.open = open;
    });
    first.before(make("div", { className: "tools" }, button(say("unfold"), all(true)), button(say("fold"), all(false))));
  };

  // What a link leads to is shown: all that it is folded into, and what it has folded of its own.
  const reveal = (hash) => {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(hash.slice(1)));
    } catch {
      // An address that somebody mistyped leads nowhere.
    }
    if (!target) return;
    let opened = false;
    const open = (part) => {
      opened ||= !part.open;
      part.open = true;
    };
    const own = target.querySelector(":scope > details:not(.help)");
    if (own && target.classList.contains("question")) open(own);
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) open(part);
    if (opened) target.scrollIntoView();
  };

  // --- a moment on the charts ---------------------------------------------------------------------------------------

  const goTo = (link, event) => {
    const explore = document.getElementById("explore");
    const from = Number(link.dataset.from || NaN);
    const to = Number(link.dataset.to || NaN);
    if (!explore || !Number.isFinite(from) || !Number.isFinite(to)) return;
    event.preventDefault();
    const detail = { from, to };
    if (link.dataset.instance) detail.instance = link.dataset.instance;
    document.dispatchEvent(new CustomEvent("kvpm:range", { detail }));
    // As an address of its own, so that Back leads to where the reader was.
    if (location.hash === "#explore") explore.scrollIntoView();
    else location.hash = "explore";
  };

  // --- all together -------------------------------------------------------------------------------------------------

  addThemeButton();
  document.querySelectorAll("pre.sql, pre.command").forEach(addCopyButton);
  document.querySelectorAll("table.filterable, table:has(tr[data-from])").forEach(makeFilter);
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("[id$='-checklist']").forEach(addFoldButtons);

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a");
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (link.matches("a.moment[data-from]")) goTo(link, event);
    // The address does not change when it is followed again, so nothing else would tell.
    if (!event.defaultPrevented && link.hash && link.hash === location.hash && link.getAttribute("href").startsWith("#")) reveal(link.hash);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    const field = event.target.closest?.("input[type=search]");
    if (field?.value) {
      field.value = "";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      event.preventDefault();
      return;
    }
    const part = event.target.closest?.("details[open]");
    if (!part) return;
    part.open = false;
    part.querySelector("summary")?.focus();
  });

  addEventListener("hashchange", () => reveal(location.hash));
  reveal(location.hash);
}
