"use strict";
// Beside the charts of the explore section: what happened around a moment, and which metric the lanes show. The page has
// the data (#explore-moments-data) and all texts; what logs said becomes text nodes, never markup.
{
  const element = (id) => document.getElementById(id);

  const make = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(text);
    return made;
  };

  // --- moments --------------------------------------------------------------------------------------------------------

  // What stands in a cell of which nothing is known; a column of nothing else is left out.
  const UNKNOWN = "–";
  // How much of the time around a moment the charts show.
  const MARGIN_MS = 60_000;
  // How far beside a moment a click in the chart of retractions may be, in parts of `near` and at least.
  const REACH = 3;
  const REACH_MS = 5000;
  // These have a vertical line in every chart.
  const RULED = ["crash", "start"];

  const moments = () => {
    const data = JSON.parse(element("explore-moments-data").textContent);
    const list = element("moment-list");
    const panel = element("moment-panel");
    let anchor = element("explore-instance")?.value ?? JSON.parse(element("explore-words").textContent).instances[0].anchor;

    const own = () => data.instances[anchor] ?? { moments: [], requests: [], lines: [], note: "" };

    const table = (caption, columns, rows, numbers) => {
      const shown = columns.map((_, n) => n).filter((n) => rows.some((row) => row[n] !== UNKNOWN));
      const head = document.createElement("tr");
      for (const n of shown) head.append(make("th", columns[n], { scope: "col", ...(numbers.includes(n) && { class: "num" }) }));
      const body = document.createElement("tbody");
      for (const row of rows) {
        const line = document.createElement("tr");
        for (const n of shown) {
          const style = numbers.includes(n) ? { class: "num" } : {};
          line.append(n === shown[0] ? make("th", row[n], { scope: "row", ...style }) : make("td", row[n], style));
        }
        body.append(line);
      }
      const made = make("table", make("caption", caption), { class: "dense" });
      const top = document.createElement("thead");
      top.append(head);
      made.append(top, body);
      return make("div", made, { class: "scroll", tabindex: "0", role: "group", "aria-label": caption });
    };

    const part = (caption, columns, rows, numbers, none) => (rows.length ? table(caption, columns, rows, numbers) : make("p", none, { class: "muted" }));

    const show = (index) => {
      const { moments: all, requests, lines } = own();
      const moment = all[index];
      const flying = moment.requests.map(([n, age, phase]) => [...requests[n].slice(0, 2), age, phase, ...requests[n].slice(2)]);
      const parts = [make("h4", moment.title, { id: "moment-title", role: "status" })];
      if (moment.detail) parts.push(make("p", moment.detail));
      parts.push(part(data.say.reports, data.columns.reports, moment.reports, [0, 1, 2, 3, 4, 5, 6], data.say.none));
      if (moment.flight) parts.push(make("p", moment.flight));
      parts.push(part(data.say.requests, data.columns.requests, flying, [2, 4, 5, 6, 7, 8], data.say.unrecorded));
      parts.push(part(data.say.lines, data.columns.lines, moment.lines.map((n) => lines[n]), [], data.say.unwritten));
      if (moment.more) parts.push(make("p", moment.more, { class: "muted" }));
      panel.replaceChildren(...parts);
      panel.hidden = false;
      for (const [n, button] of [...list.querySelectorAll("button")].entries()) button.setAttribute("aria-pressed", String(n === index));
    };

    const go = (index) => {
      const { from, to } = own().moments[index];
      show(index);
      const detail = { from: from - MARGIN_MS, to: to + MARGIN_MS, instance: anchor };
      document.dispatchEvent(new CustomEvent("kvpm:range", { detail }));
    };

    const fill = () => {
      const { moments: all, note } = own();
      panel.hidden = true;
      panel.replaceChildren();
      list.replaceChildren(
        ...all.map((moment, index) => {
          const button = make("button", moment.title, { type: "button", "aria-pressed": "false", "data-kind": moment.kind });
          button.addEventListener("click", () => go(index));
          return make("li", button);
        }),
      );
      element("moment-note").textContent = note;
      element("moment-note").hidden = !note;
      element("moment-none").hidden = all.length > 0;
    };

    document.addEventListener("kvpm:instance", (event) => {
      anchor = event.detail.instance;
      fill();
    });

    document.addEventListener("kvpm:pick", (event) => {
      const { at, near, chart } = event.detail;
      const here = chart === "retracted";
      const reach = here ? Math.max(REACH * near, REACH_MS) : near;
      let best = -1;
      let shortest = reach;
      for (const [index, { from, to, kind }] of own().moments.entries()) {
        if (!here && !RULED.includes(kind)) continue;
        const distance = Math.max(from - at, at - to, 0);
        if (distance < shortest || (best < 0 && distance <= reach)) {
          best = index;
          shortest = distance;
        }
      }
      if (best < 0) return;
      show(best);
      panel.scrollIntoView({ block: "nearest" });
    });

    fill();
  };

  // --- lanes ----------------------------------------------------------------------------------------------------------

  const lanes = () => {
    const select = element("explore-lanes-metric");
    const { named } = JSON.parse(element("explore-words").textContent);
    const apply = () => {
      for (const document of globalThis.Bokeh?.documents ?? []) {
        for (const option of select.options) {
          for (const id of named[`lanes:${option.value}`] ?? []) {
            document.get_model_by_id(id)?.setv({ visible: option.value === select.value });
          }
        }
      }
    };
    select.addEventListener("change", apply);
    document.addEventListener("kvpm:explore", apply);
  };

  if (element("explore-moments-data")) moments();
  if (element("explore-lanes-metric")) lanes();
}
