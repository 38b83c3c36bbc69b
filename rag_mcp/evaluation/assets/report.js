"use strict";
// Everything from the data becomes a text node: questions and passages are untrusted.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const PAGE = 100;
  const COLUMNS = [
    ["question", (row) => row.question],
    ["kind", (row) => kind(row)],
    ["verdict", (row) => verdict(row)],
    ["nDCG@10", (row) => answer(row).metrics["ndcg@10"]],
    ["score", (row) => answer(row).best_score],
    ["level", (row) => answer(row).level],
    ["ms", (row) => answer(row).latency_ms],
  ];
  let shown = PAGE;
  let order = { column: -1, down: false };

  const answer = (row) => row.modes[byId("mode").value];
  const kind = (row) => row.negkind || "answerable";
  const fixed = (value, digits) => (typeof value === "number" ? value.toFixed(digits) : "–");

  function verdict(row) {
    const got = answer(row);
    if (got.error) return "refused";
    if (!row.answerable) return got.answered ? "let through" : "withheld";
    const rank = got.metrics["hit@1"] ? "first" : got.metrics["hit@5"] ? "in five" : "missed";
    return got.answered ? rank : rank + ", withheld";
  }

  function make(tag, text, name) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (name) node.className = name;
    return node;
  }

  function fill(select, values) {
    for (const value of values) select.append(new Option(value, value));
  }

  function place(item) {
    const lines = item.line_start ? `, lines ${item.line_start} to ${item.line_end}` : "";
    return item.source + lines + (item.heading ? ` (${item.heading})` : "");
  }

  function expected(row) {
    const list = make("ul");
    for (const item of row.expected) {
      const entry = make("li", item.source + (item.start === null ? "" : `, characters ${item.start} to ${item.end}`));
      if (item.quote) entry.append(make("p", item.quote));
      list.append(entry);
    }
    if (!row.expected.length) list.append(make("li", "nothing" + (row.near ? `; tempting: ${row.near}` : "")));
    return list;
  }

  function results(row, got) {
    const list = make("ol");
    for (const item of got.results) {
      const entry = make("li");
      const marks = row.answerable ? [item.relevant ? "right file" : "other file"] : [];
      if (item.overlaps !== null) marks.push(item.overlaps ? "overlaps the quote" : "beside the quote");
      entry.append(make("strong", fixed(item.score, 3)), ` ${item.confidence} `);
      entry.append(make("span", marks.join(", "), item.relevant ? "good" : "bad"), ` ${place(item)}`);
      if (item.text) entry.append(make("p", item.text));
      list.append(entry);
    }
    return got.results.length ? list : make("p", got.error || "No results.");
  }

  function detail(row) {
    const line = make("tr", undefined, "detail");
    const cell = make("td");
    cell.colSpan = COLUMNS.length;
    cell.append(make("h4", `Expected (${row.id})`), expected(row), make("h4", "First results"), results(row, answer(row)));
    line.append(cell);
    return line;
  }

  function line(row) {
    const tr = make("tr");
    const cell = make("td", undefined, "question");
    const button = make("button", row.question);
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) tr.nextSibling.remove();
      else tr.after(detail(row));
    });
    cell.append(button);
    const said = verdict(row);
    const good = said === "first" || said === "in five" || said === "withheld";
    const got = answer(row);
    tr.append(cell, make("td", kind(row)), make("td", said, "verdict " + (good ? "good" : "bad")));
    tr.append(make("td", fixed(got.metrics["ndcg@10"], 3)), make("td", fixed(got.best_score, 3)));
    tr.append(make("td", got.level || "–"), make("td", fixed(got.latency_ms, 1)));
    return tr;
  }

  function compare(a, b) {
    if (a === b) return 0;
    if (a === undefined || a === null) return 1;
    if (b === undefined || b === null) return -1;
    return a < b ? -1 : 1;
  }

  function selected() {
    const text = byId("contains").value.toLowerCase();
    const wanted = data.rows.filter(
      (row) =>
        (!byId("kind").value || kind(row) === byId("kind").value) &&
        (!byId("verdict").value || verdict(row) === byId("verdict").value) &&
        (!text || (row.question + " " + row.id).toLowerCase().includes(text)),
    );
    if (order.column >= 0) {
      const value = COLUMNS[order.column][1];
      wanted.sort((one, other) => compare(value(one), value(other)) * (order.down ? -1 : 1));
    }
    return wanted;
  }

  function draw() {
    const wanted = selected();
    byId("rows").tBodies[0].replaceChildren(...wanted.slice(0, shown).map(line));
    byId("count").textContent = `${Math.min(shown, wanted.length)} of ${wanted.length} shown, ${data.rows.length} in all`;
    byId("more").hidden = wanted.length <= shown;
  }

  function restart() {
    shown = PAGE;
    draw();
  }

  function verdicts() {
    const found = [...new Set(data.rows.map(verdict))].sort();
    const select = byId("verdict");
    const kept = select.value;
    select.replaceChildren(new Option("all", ""));
    fill(select, found);
    select.value = found.includes(kept) ? kept : "";
  }

  function header() {
    const tr = make("tr");
    COLUMNS.forEach(([name], column) => {
      const th = make("th");
      const button = make("button", name);
      button.type = "button";
      th.scope = "col";
      button.addEventListener("click", () => {
        order = { column, down: order.column === column && !order.down };
        for (const other of tr.children) other.removeAttribute("aria-sort");
        th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
        restart();
      });
      th.append(button);
      tr.append(th);
    });
    byId("rows").tHead.append(tr);
  }

  fill(byId("mode"), data.modes);
  byId("kind").append(new Option("all", ""));
  fill(byId("kind"), [...new Set(data.rows.map(kind))].sort());
  verdicts();
  header();
  byId("mode").addEventListener("change", () => { verdicts(); restart(); });
  byId("kind").addEventListener("change", restart);
  byId("verdict").addEventListener("change", restart);
  byId("contains").addEventListener("input", restart);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", () => { shown += PAGE; draw(); });
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
  draw();
})();
