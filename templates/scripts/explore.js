"use strict";
// The explore section: draws the page's Bokeh document, fills it with the chosen instance's data, and keeps time range,
// values and colours together. All texts come from the page (#explore-words), all data from #explore-data.
//
// Others on the page send "kvpm:range" {from, to, instance?} (epoch ms) to move it, and hear "kvpm:ranged" {from, to,
// instance} when the range has moved, "kvpm:instance" {instance} after another instance was chosen, "kvpm:pick" {at, near,
// chart, instance} when a moment of a chart was clicked, and "kvpm:explore" once the charts are drawn.
{
  const element = (id) => document.getElementById(id);
  const block = (id) => JSON.parse(element(id).textContent);
  const words = block("explore-words");
  const section = element("explore");
  const instances = new Map(words.instances.map((one) => [one.anchor, one]));
  const SHORTEST_MS = 2000;
  const GAP = 65535;

  let chosen = words.instances[0];
  let range = { from: chosen.first[0], to: chosen.first[1] };
  let cursor = null;
  // Set when the charts are drawn: the models of the document, by what they are for.
  let drawn = null;

  // --- data -----------------------------------------------------------------------------------------------------------

  const ARRAYS = { t: Uint16Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

  const unpack = (column) => {
    if (Array.isArray(column)) return column;
    const text = atob(column.d);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const numbers = new ARRAYS[column.k](bytes.buffer);
    if (column.k === "t") return Array.from(numbers, (n) => column.t[n]);
    if (column.k !== "u2") return Float64Array.from(numbers);
    return Float64Array.from(numbers, (n) => (n === GAP ? NaN : column.b + column.s * n));
  };

  let packed = null;
  const unpacked = new Map();

  // The columns of all sources of one instance, and of those that are the same for every one (under an empty anchor).
  const tablesOf = (anchor) => {
    packed ??= block("explore-data");
    if (!unpacked.has(anchor)) {
      const tables = new Map();
      for (const [source, columns] of Object.entries({ ...packed[""], ...packed[anchor] })) {
        tables.set(source, Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, unpack(column)])));
      }
      unpacked.set(anchor, tables);
    }
    return unpacked.get(anchor);
  };

  // Corners of a curve whose values hold until the next one. `y` is the line, with gaps; `low` and `high` are the area,
  // which has no height where nothing is known.
  const corners = ({ x, y, low }) => {
    const out = { x: [], low: [], high: [], y: [] };
    const put = (at, below, above, line) => {
      out.x.push(at);
      out.low.push(below);
      out.high.push(above);
      out.y.push(line);
    };
    let highest = 0;
    for (const value of y) if (Number.isFinite(value)) highest = Math.max(highest, value);
    // Longer than can be told: far above any picture.
    const shown = (i) => (y[i] === Infinity ? Math.max(highest, low ? low[i] : 0) * 1000 : y[i]);
    let last = -1;
    for (let i = 0; i < x.length; i++) {
      const below = low && !Number.isNaN(low[i]) ? low[i] : 0;
      if (last >= 0) {
        const before = low ? low[last] : 0;
        put(x[i], before, shown(last), shown(last));
        if (Number.isNaN(y[i])) put(x[i], before, before, NaN);
      } else if (!Number.isNaN(y[i])) {
        put(x[i], below, below, NaN);
      }
      last = Number.isNaN(y[i]) ? -1 : i;
      if (last >= 0) put(x[i], below, shown(i), shown(i));
    }
    return out;
  };

  // The last index whose x is not after `at`; -1 before the first.
  const indexAt = (x, at) => {
    let low = 0;
    let high = x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  };

  // What a line of a chart says at a moment: {value, low, from, to}; null where nothing was reported.
  const valueAt = (line, at) => {
    const table = tablesOf(chosen.anchor).get(line.key);
    if (!table) return null;
    if (line.kind === "bars") {
      const i = indexAt(table.left, at);
      return i >= 0 && at < table.right[i] ? { value: table.count[i], from: table.left[i], to: table.right[i] } : null;
    }
    const i = indexAt(table.x, at);
    if (i < 0 || Number.isNaN(table.y[i])) return null;
    return { value: table.y[i], low: table.low ? table.low[i] : 0, from: table.x[i], to: table.x[i + 1] };
  };

  const highestIn = (line, from, to) => {
    const table = tablesOf(chosen.anchor).get(line.key);
    let highest = -Infinity;
    if (!table) return highest;
    const [starts, values] = line.kind === "bars" ? [table.left, table.count] : [table.x, table.y];
    for (let i = Math.max(0, indexAt(starts, from)); i < starts.length && starts[i] <= to; i++) {
      if (values[i] > highest && values[i] !== Infinity) highest = values[i];
    }
    return highest;
  };

  // --- words ----------------------------------------------------------------------------------------------------------

  const fill = (text, fields) => {
    for (const [name, value] of Object.entries(fields)) text = text.replaceAll(`{${name}}`, value);
    return text;
  };

  const NBSP = "\u00a0";

  const number = (value) => {
    const size = Math.abs(value);
    if (size >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
    return String(Number(value.toPrecision(4)));
  };

  const two = (big, bigUnit, small, smallUnit) =>
    `${number(big)}${NBSP}${bigUnit}` + (small ? `${NBSP}${small}${NBSP}${smallUnit}` : "");

  const duration = (seconds) => {
    if (seconds === 0) return `0${NBSP}s`;
    if (seconds < 0.001) return `${Number((seconds * 1e6).toPrecision(3))}${NBSP}µs`;
    if (seconds < 0.9995) return `${Number((seconds * 1e3).toPrecision(3))}${NBSP}ms`;
    if (seconds < 59.95) return `${Number(seconds.toFixed(1))}${NBSP}s`;
    const whole = Math.round(seconds);
    if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
    const minutes = Math.round(whole / 60);
    if (minutes < 1440) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
    const hours = Math.round(whole / 3600);
    return two(Math.floor(hours / 24), "d", hours % 24, "h");
  };

  // Rounding never turns "nearly" into 0 % or 100 %.
  const share = (value) => {
    const percent = value * 100;
    if (percent >= 99.95 && percent < 99.99999) return fill(words.say.over, { share: `99.9${NBSP}%` });
    if (percent > 0 && percent < 0.05) return fill(words.say.under, { share: `0.1${NBSP}%` });
    return `${Number(percent.toFixed(1))}${NBSP}%`;
  };

  const measure = (value, unit) => {
    if (value === Infinity) return words.say.longer;
    if (unit === "s") return duration(value);
    if (unit === "share") return share(value);
    const forms = words.units[unit];
    return forms ? fill(forms[value === 1 ? 0 : 1], { n: number(value) }).replaceAll(" ", NBSP) : number(value);
  };

  // UTC, to the second, and to the millisecond where the range is short.
  const clock = (ms) => {
    const text = new Date(ms).toISOString();
    const fine = range.to - range.from < 30_000;
    return `${text.slice(0, 10)} ${text.slice(11, fine ? 23 : 19)} UTC`;
  };

  const told = (chart, line, at) => {
    const found = valueAt(line, at);
    // Counts are listed where there are any; where reports are missing for all, the gap in the other charts says so.
    if (!found) return line.kind === "bars" && tablesOf(chosen.anchor).has(line.key) ? words.say.none : chart.gap;
    if (line.kind !== "band") return measure(found.value, chart.unit);
    // Of stacked states the height counts, of bounds both ends.
    if (chart.unit === "tokens") return measure(found.value - found.low, chart.unit);
    return `${measure(found.low, chart.unit)} – ${measure(found.value, chart.unit)}`;
  };

  // --- time range -----------------------------------------------------------------------------------------------------

  let announcing = 0;

  const setRange = (from, to) => {
    const { start, end } = chosen;
    const length = Math.min(Math.max(to - from, SHORTEST_MS), end - start);
    // A range that reaches beyond the capture is moved back into it, not cut.
    const middle = (from + to) / 2;
    const left = Math.min(Math.max(middle - length / 2, start), end - length);
    range = { from: Math.round(left), to: Math.round(left + length) };
    element("explore-from").value = local(range.from);
    element("explore-to").value = local(range.to);
    if (drawn) {
      if (drawn.x.start !== range.from || drawn.x.end !== range.to) drawn.x.setv({ start: range.from, end: range.to });
      rescale();
    }
    setCursor(cursor !== null && cursor >= range.from && cursor <= range.to ? cursor : (range.from + range.to) / 2);
    clearTimeout(announcing);
    announcing = setTimeout(() => send("kvpm:ranged", { ...range, instance: chosen.anchor }), 150);
  };

  // Every change the reader asks for goes the same way as one from elsewhere on the page.
  const ask = (from, to) => send("kvpm:range", { from, to, instance: chosen.anchor });

  const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

  const local = (ms) => new Date(ms).toISOString().slice(0, 19);

  const zoom = (factor, at = (range.from + range.to) / 2) => ask(at - (at - range.from) * factor, at + (range.to - at) * factor);

  const move = (part) => {
    const by = (range.to - range.from) * part;
    ask(range.from + by, range.to + by);
  };

  const incident = () => {
    if (!chosen.incident) return;
    const [from, to] = chosen.incident;
    // With some of what came before and after.
    const margin = Math.max((to - from) * 0.25, SHORTEST_MS);
    ask(Math.max(from - margin, chosen.start), Math.min(to + margin, chosen.end));
  };

  const GO = {
    incident,
    whole: () => ask(chosen.start, chosen.end),
    in: () => zoom(0.5),
    out: () => zoom(2),
    earlier: () => move(-0.5),
    later: () => move(0.5),
  };

  // --- cursor ---------------------------------------------------------------------------------------------------------

  const setCursor = (at) => {
    cursor = at;
    const slider = element("explore-cursor");
    slider.value = String(Math.round(((at - range.from) / (range.to - range.from)) * 1000));
    slider.setAttribute("aria-valuetext", clock(at));
    element("explore-at").textContent = clock(at);
    if (!drawn) return;
    drawn.crosshair.setv({ location: at, visible: true });
    for (const chart of words.charts) {
      for (const line of chart.lines) {
        section.querySelector(`[data-curve="${line.key}"]`).textContent = told(chart, line, at);
      }
    }
  };

  const tip = document.createElement("div");
  tip.className = "explore-tip";
  tip.hidden = true;

  const part = (tag, text, colour) => {
    const one = document.createElement(tag);
    if (colour) {
      const mark = document.createElement("i");
      mark.style.setProperty("--c", `var(--${colour})`);
      one.append(mark);
    }
    one.append(text);
    return one;
  };

  const showTip = (place, chart, at, px) => {
    const lines = chart.lines.map((line) => part("span", `${line.label}: ${told(chart, line, at)}`, line.colour));
    const near = ((range.to - range.from) / place.clientWidth) * 6;
    const rules = chosen.rules.filter(([when]) => Math.abs(when - at) <= near).map(([when, label]) => part("span", `${label}: ${clock(when)}`));
    tip.replaceChildren(part("b", clock(at)), ...lines, ...rules);
    place.append(tip);
    tip.hidden = false;
    const left = px < place.clientWidth / 2;
    tip.style.left = left ? `${px + 12}px` : "auto";
    tip.style.right = left ? "auto" : `${place.clientWidth - px + 12}px`;
  };

  // For those who hear the page: the values, once the keys have rested. A pointer's every move is not told.
  let saying = 0;

  const sayValues = (charts) => {
    clearTimeout(saying);
    saying = setTimeout(() => {
      const values = charts.flatMap((chart) => chart.lines.map((line) => `${line.label}: ${told(chart, line, cursor)}`));
      element("explore-status").textContent = [clock(cursor), ...values].join("; ");
    }, 400);
  };

  const step = (part) => {
    const at = (cursor ?? range.from) + (range.to - range.from) * part;
    setCursor(Math.min(Math.max(at, range.from), range.to));
  };

  const KEYS = {
    ArrowLeft: () => step(-0.005),
    ArrowRight: () => step(0.005),
    PageUp: GO.earlier,
    PageDown: GO.later,
    Home: GO.whole,
    "+": GO.in,
    "-": GO.out,
  };

  // --- drawing --------------------------------------------------------------------------------------------------------

  const fillSources = () => {
    const tables = tablesOf(chosen.anchor);
    const curves = new Set(words.charts.flatMap((chart) => chart.lines.filter((line) => line.kind !== "bars").map((line) => line.key)));
    for (const [name, source] of drawn.sources) {
      const table = tables.get(name);
      if (name === "others") source.data = { x0: chosen.others.map(([from]) => from), x1: chosen.others.map(([, to]) => to) };
      else if (name === "rules") source.data = { x: chosen.rules.map(([at]) => at) };
      else if (!table) source.data = Object.fromEntries([...source.columns()].map((column) => [column, []]));
      else source.data = curves.has(name) ? corners(table) : table;
    }
    for (const box of drawn.incident) {
      const shade = chosen.incident;
      box.setv(shade ? { left: shade[0], right: shade[1], visible: true } : { visible: false });
    }
    for (const note of section.querySelectorAll("[data-note]")) note.textContent = chosen.notes[note.dataset.note] ?? "";
  };

  const rescale = () => {
    for (const chart of words.charts) {
      const own = chart.lines.filter((line) => line.kind !== "guide");
      let top = Math.max(...own.map((line) => highestIn(line, range.from, range.to)));
      if (!(top > 0)) top = 0;
      for (const line of chart.lines) {
        const bound = line.kind === "guide" ? highestIn(line, range.from, range.to) : 0;
        if (bound > top && bound <= 2.5 * top) top = bound;
      }
      const end = chart.top === null ? top * 1.06 || 1 : Math.max(chart.top, top) * 1.02;
      const y = drawn.y.get(chart.key);
      if (y.end !== end) y.setv({ start: 0, end });
    }
  };

  // The page's colours are light-dark(…): only an element that uses one knows which it is.
  const paint = () => {
    const probe = document.createElement("span");
    probe.className = "explore-probe";
    section.append(probe);
    const known = new Map();
    const colour = (name) => {
      if (!known.has(name)) {
        probe.style.color = `var(--${name})`;
        known.set(name, getComputedStyle(probe).color);
      }
      return known.get(name);
    };
    for (const [id, tags] of words.coloured) {
      const model = drawn.document.get_model_by_id(id);
      if (!model) continue;
      const changed = {};
      for (const tag of tags) {
        const [what, name] = tag.split(":");
        const key = `${what}_color`;
        const old = model[key];
        // Glyphs that could have a colour per point hold theirs in a wrapper.
        changed[key] = old !== null && typeof old === "object" && "value" in old ? { value: colour(name) } : colour(name);
      }
      model.setv(changed);
    }
    probe.remove();
  };

  const setDrag = () => {
    const mode = element("explore-drag").value;
    for (const [kind, tools] of Object.entries(drawn.tools)) {
      for (const tool of tools) if (mode !== kind) tool.active = false;
    }
    for (const tool of drawn.tools[mode] ?? []) tool.active = true;
  };

  const listenTo = (name, view, chart) => {
    const place = element(`explore-${name}`);
    const timeAt = (event) => {
      const { left, right } = view.frame.bbox;
      const px = event.clientX - place.getBoundingClientRect().left;
      if (px < left || px > right) return null;
      return { px, at: range.from + ((px - left) / (right - left)) * (range.to - range.from) };
    };
    const follow = (event) => {
      const found = timeAt(event);
      if (!found) {
        tip.hidden = true;
        return;
      }
      setCursor(found.at);
      if (chart) showTip(place, chart, found.at, found.px);
    };
    place.addEventListener("pointermove", follow);
    place.addEventListener("pointerdown", follow);
    place.addEventListener("pointerleave", () => {
      tip.hidden = true;
    });
    let pressed = 0;
    place.addEventListener("pointerdown", (event) => {
      pressed = event.clientX;
    });
    place.addEventListener("click", (event) => {
      const found = timeAt(event);
      // The end of a drag is no click.
      if (!found || Math.abs(event.clientX - pressed) > 4) return;
      const near = ((range.to - range.from) / place.clientWidth) * 8;
      send("kvpm:pick", { at: found.at, near, chart: chart?.key ?? null, instance: chosen.anchor });
    });
    place.addEventListener("dblclick", GO.whole);
    // The chart library makes its charts stops of the Tab key.
    place.addEventListener("keydown", (event) => {
      const action = KEYS[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
      if (chart) sayValues([chart]);
    });
    // A stop of the Tab key must say what it is.
    const stop = view.canvas_view.events_el;
    stop.setAttribute("role", "application");
    stop.setAttribute("aria-label", element(`explore-name-${name}`).textContent);
    place.addEventListener(
      "wheel",
      (event) => {
        const found = timeAt(event);
        // Without a key the page scrolls, as everywhere else on it.
        if (!found || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        zoom(event.deltaY > 0 ? 1.25 : 0.8, found.at);
      },
      { passive: false },
    );
  };

  const draw = async () => {
    const bokeh = globalThis.Bokeh;
    bokeh.logger.set_level("warn");
    // Without a place to draw anything: what is filled and coloured before it is drawn is drawn once.
    await bokeh.embed.embed_items({ page: block("explore-document") }, []);
    const content = bokeh.documents.at(-1);
    const named = (name) => (words.named[name] ?? []).map((id) => content.get_model_by_id(id));
    const sources = new Map();
    for (const [name, ids] of Object.entries(words.named)) {
      const found = content.get_model_by_id(ids[0]);
      if (found?.type === "ColumnDataSource") sources.set(name, found);
    }
    drawn = {
      document: content,
      sources,
      x: named("x")[0],
      crosshair: named("crosshair")[0],
      incident: named("incident"),
      y: new Map(words.charts.map((chart) => [chart.key, named(`y:${chart.key}`)[0]])),
      tools: { zoom: named("zoom"), pan: named("pan") },
    };
    paint();
    fillSources();
    setRange(range.from, range.to);
    const places = Object.keys(words.roots);
    const views = await bokeh.embed.add_document_standalone(content, section, places.map((key) => element(`explore-${key}`)));
    setDrag();
    drawn.x.change.connect(() => {
      if (drawn.x.start !== range.from || drawn.x.end !== range.to) setRange(drawn.x.start, drawn.x.end);
    });
    for (const key of places) {
      listenTo(key, views.get_by_id(words.roots[key]), words.charts.find((chart) => chart.key === key));
    }
    section.classList.add("explore-drawn");
    send("kvpm:explore", {});
  };

  let started = false;
  const start = () => {
    if (started) return;
    started = true;
    void draw();
  };

  // --- controls -------------------------------------------------------------------------------------------------------

  const choose = (anchor) => {
    const other = instances.get(anchor);
    if (!other || other === chosen) return;
    chosen = other;
    const select = element("explore-instance");
    if (select) select.value = anchor;
    if (drawn) fillSources();
    showIncident();
    send("kvpm:instance", { instance: anchor });
  };

  const showIncident = () => {
    section.querySelector("[data-go=incident]").disabled = !chosen.incident;
  };

  document.addEventListener("kvpm:range", (event) => {
    const { from, to, instance } = event.detail ?? {};
    if (instance) choose(instance);
    if (Number.isFinite(from) && Number.isFinite(to)) setRange(from, to);
    start();
  });

  element("explore-instance")?.addEventListener("change", (event) => {
    choose(event.target.value);
    ask(...chosen.first);
  });
  for (const id of ["explore-from", "explore-to"]) {
    element(id).addEventListener("change", () => {
      const from = Date.parse(`${element("explore-from").value}Z`);
      const to = Date.parse(`${element("explore-to").value}Z`);
      if (Number.isFinite(from) && Number.isFinite(to) && from < to) ask(from, to);
      else setRange(range.from, range.to);
    });
  }
  for (const button of section.querySelectorAll("[data-go]")) button.addEventListener("click", GO[button.dataset.go]);
  element("explore-cursor").addEventListener("input", (event) => {
    setCursor(range.from + (Number(event.target.value) / 1000) * (range.to - range.from));
    sayValues(words.charts);
  });
  element("explore-drag").addEventListener("change", () => drawn && setDrag());
  // Where fingers scroll the page, a drag in a chart must not take that away unasked.
  if (matchMedia("(pointer: coarse)").matches) element("explore-drag").value = "none";

  const repaint = () => drawn && paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  document.addEventListener("kvpm:theme", repaint);

  showIncident();
  setRange(range.from, range.to);

  // Charts are drawn when they come near, or when the page has nothing else to do: the first screen comes before them.
  new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && start(), { rootMargin: "300px" }).observe(element("explore-charts"));
  addEventListener("load", () => {
    if (globalThis.requestIdleCallback) requestIdleCallback(start, { timeout: 3000 });
    else setTimeout(start, 1000);
  });
}
