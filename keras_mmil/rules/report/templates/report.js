"use strict";
const byId = (id) => document.getElementById(id);
const make = (tag, kind, ...children) => {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children.filter((each) => each !== null));
  return element;
};
// JSON of the page that is compressed.
const unpacked = async (id) => {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};
(async () => {
  const PER_PAGE = 20;
  const find = (selector) => [...document.querySelectorAll(selector)];
  const data = JSON.parse(byId("data").textContent);
  const names = new Map(data.clusters.map((each) => [each.key, each.name])); // as they are now
  const first = new Map(names);

  // A text in which the codes of clusters follow their names, as pieces: texts and [key, name].
  const pieces = (text) => {
    const found = [], parts = String(text).split(/\ue000([0-9.]+)\ue001/);
    for (let i = 0; i < parts.length; i += 2) {
      const name = first.get(parts[i + 1]);
      found.push(name === undefined ? parts[i] : parts[i].slice(0, -name.length));
      if (name !== undefined) found.push([parts[i + 1], name]);
    }
    return found;
  };
  const worded = (text) => pieces(text).map((piece) => {
    if (typeof piece === "string") return piece;
    const span = make("span", "name", names.get(piece[0]));
    span.dataset.cluster = piece[0];
    return span;
  });

  for (const input of find("[data-rename]")) {
    const key = input.dataset.rename;
    input.addEventListener("input", () => {
      names.set(key, input.value.trim() || first.get(key));
      for (const element of find(".name")) {
        if (element.dataset.cluster === key) element.textContent = names.get(key);
      }
    });
    input.addEventListener("change", () => { input.value = names.get(key); });
  }
  addEventListener("beforeprint", () => { for (const each of find("#rules details")) each.open = true; });
  if (!byId("packed")) return;
  const cases = await unpacked("packed");

  // What is in a record -------------------------------------------------------------------------

  const picture = (html) => {
    const span = make("span", "picture");
    span.innerHTML = html; // of this page: texts in it are escaped
    return span;
  };
  const fieldsOf = (record, isTop) => {
    const pairs = Object.entries(record.fields || {});
    if (!pairs.length) return null;
    if (isTop) {
      const body = make("tbody", "", ...pairs.map(([name, value]) => {
        const head = make("th", "", name);
        head.scope = "row";
        return make("tr", "", head, make("td", "", value));
      }));
      return make("table", "data fields", body);
    }
    return make("span", "inline", ...pairs.map(([name, value]) => make("span", "field", make("i", "", name), ` ${value}`)));
  };
  const groupOf = (group) => {
    const shown = make("div", "members", ...group.members.map((each) => recordOf(each, group.kind)));
    if (group.more) shown.append(make("p", "more", group.members.length ? `and ${group.more} more` : `${group.more}`));
    const n = group.members.length + group.more;
    if (["idle", "checked", "counted", "inside"].includes(group.kind)) {
      const details = make("details", `group ${group.kind}`, make("summary", "", `${group.title}: ${n}`), shown);
      details.open = group.kind === "counted" || group.kind === "inside";
      return group.members.length ? details : make("p", `group ${group.kind} role`, `${group.title}: ${n}`);
    }
    return make("div", `group ${group.kind}`, make("p", "role", group.title), shown);
  };
  const recordOf = (record, kind) => {
    const isTop = kind === "top", body = make("div", `record ${kind}`);
    const title = record.picture && !record.text ? picture(record.picture) : make("span", "what", record.title);
    if (record.text) body.append(record.picture ? picture(record.picture) : record.text);
    else if (isTop) { if (record.picture) body.append(title); }
    else {
      const head = make("p", "head", title);
      if (record.times) head.append(make("span", "times", ` ×${record.times}`));
      if (record.label) head.append(" is ", make("b", "label", ...worded(record.label)));
      if (record.because) head.append(", because ", ...worded(record.because));
      const fields = fieldsOf(record, false);
      if (fields) head.append(" ", fields);
      if (fields || record.groups || record.because) body.classList.add("whole");
      body.append(head);
    }
    if (isTop) body.append(...[fieldsOf(record, true)].filter(Boolean));
    body.append(...(record.groups || []).map(groupOf));
    if (record.absent) body.append(make("p", "absent", "absent, as the rule asks: ", ...record.absent.flatMap((each, i) => [i ? ", " : "", ...worded(each)])));
    return body;
  };

  // The list ------------------------------------------------------------------------------------

  const ruleOf = new Map(data.rules.map((rule) => [rule.number, rule]));
  const pill = (name) => make("span", `class class${data.classes.indexOf(name) % 6}`, name);
  const shareText = (share) => `${(100 * share).toFixed(1)} %`;
  const cell = (title, ...children) => make("span", "cell", make("i", "", title), " ", ...children);
  const caseOf = (one) => {
    const network = cell("network", pill(one.network));
    if (one.probability !== undefined) network.append(` ${shareText(one.probability)}`);
    if (!one.agrees) network.append(make("strong", "warn", " disagrees"));
    const row = make("summary", "", make("b", "key", one.name), cell("rules", pill(one.rules)), network);
    if (one.truth !== undefined) row.append(cell("truth", pill(one.truth)));
    row.append(cell("rule", String(one.rule)));
    if (one.truth !== undefined && one.truth !== one.network) row.append(make("strong", "warn", "network is wrong"));
    const details = make("details", `case${one.agrees ? "" : " disagrees"}`, row);
    details.dataset.index = one.index;
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const rule = ruleOf.get(one.rule);
      details.append(make("p", "why", `Rule ${one.rule}: ${rule.class} `, ...worded(rule.text)));
      details.append(one.record ? recordOf(one.record, "top") : make("p", "hint", "What is in it is left out."));
      if (!byId("what-if-packed")) return;
      const button = make("button", "", "What if …");
      button.type = "button";
      button.addEventListener("click", () => document.dispatchEvent(new CustomEvent("what-if", { detail: one.index })));
      details.append(button);
    });
    return details;
  };
  const texts = new Map();
  const words = (value) => (value === null || typeof value !== "object" ? String(value)
    : Object.entries(value).filter(([key]) => key !== "picture" && key !== "kind").map(([key, each]) => `${Array.isArray(value) ? "" : key} ${words(each)}`).join(" "));
  const textOf = (one) => {
    if (!texts.has(one)) texts.set(one, pieces(`${one.name} ${one.record ? words(one.record) : ""}`).map((piece) => (typeof piece === "string" ? piece : piece[1])).join("").toLowerCase());
    return texts.get(one);
  };
  const [search, which, byClass, byRule, count, page, previous, next, list] = ["search", "which",
    "by-class", "by-rule", "count", "page", "previous", "next", "case-list"].map(byId);
  const kinds = {
    "": () => true,
    disagree: (one) => !one.agrees,
    network: (one) => one.network !== one.truth,
    rules: (one) => one.rules !== one.truth,
  };
  let shown = [], at = 0;
  const show = () => {
    const some = shown.slice(at, at + PER_PAGE);
    list.replaceChildren(...some.map(caseOf));
    page.textContent = some.length ? `${at + 1} to ${at + some.length} of ${shown.length}` : "none";
    previous.disabled = at === 0;
    next.disabled = at + PER_PAGE >= shown.length;
  };
  const update = () => {
    const wanted = search.value.trim().toLowerCase();
    shown = cases.filter((one) => kinds[which.value](one)
      && (!byClass.value || one.rules === byClass.value)
      && (!byRule.value || String(one.rule) === byRule.value)
      && (!wanted || textOf(one).includes(wanted)));
    at = 0;
    count.textContent = `${shown.length} of ${cases.length} shown`;
    show();
  };
  for (const control of [search, which, byClass, byRule]) {
    for (const event of ["input", "change"]) control.addEventListener(event, update);
  }
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [button, step] of [[previous, -PER_PAGE], [next, PER_PAGE]]) {
    button.addEventListener("click", () => { at += step; show(); });
  }
  update();
})();
