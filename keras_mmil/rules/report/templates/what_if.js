// What if: a record that the reader changes, and the rule that then holds for it.
(async () => {
  if (!byId("what-if-packed")) return;
  const { rules, records } = await unpacked("what-if-packed");
  const { classes } = JSON.parse(byId("data").textContent);
  const [choice, form, result, source] = ["case", "record", "result", "json"].map((id) => byId(`what-if-${id}`));
  let record = null, before = null;

  const button = (text, label, act) => {
    const element = make("button", "", text);
    element.type = "button";
    element.setAttribute("aria-label", label);
    element.addEventListener("click", act);
    return element;
  };
  const isRecord = (x) => typeof x === "object" && x !== null && !Array.isArray(x);

  // What there is at each path of the records: a type, values, and a member to add to a list.
  const seen = new Map();
  const visit = (value, path) => {
    if (value === null) return;
    if (!seen.has(path)) seen.set(path, { type: typeof value, values: new Set(), example: value });
    if (Array.isArray(value)) for (const each of value) visit(each, `${path}[]`);
    else if (isRecord(value)) for (const [name, each] of Object.entries(value)) visit(each, `${path}.${name}`);
    else if (seen.get(path).values.size <= 30) seen.get(path).values.add(value);
  };
  for (const [, each] of Object.values(records)) visit(each, "");
  const about = (path) => seen.get(path) || { type: "string", values: new Set() };
  const copy = (value) => JSON.parse(JSON.stringify(value));

  // The form ------------------------------------------------------------------------------------

  let n = 0;
  const scalar = (holder, key, path, label) => {
    const { type, values } = about(path), value = holder[key];
    let input;
    if (type === "boolean") {
      input = make("select", "", ...["missing", "true", "false"].map((each) => make("option", "", each)));
      input.value = value === null ? "missing" : String(value);
    } else {
      input = make("input", "");
      input.type = type === "number" ? "number" : "text";
      if (type === "number") input.step = "any";
      input.value = value === null ? "" : String(value);
      input.placeholder = "missing";
    }
    const named = make("label", "", `${label} `, input);
    if (type === "string" && values.size <= 30) {
      const list = make("datalist", "", ...[...values].map((each) => { const o = make("option", ""); o.value = each; return o; }));
      list.id = `what-if-values-${n += 1}`;
      input.setAttribute("list", list.id);
      named.append(list);
    }
    input.addEventListener("input", () => {
      const text = input.value;
      if (type === "boolean") holder[key] = text === "missing" ? null : text === "true";
      else if (text === "") holder[key] = null;
      else holder[key] = type === "number" ? Number(text) : text;
      update();
    });
    return named;
  };
  const part = (holder, key, path, label) => {
    const value = holder[key];
    const type = value === null ? about(path).example : value;
    if (Array.isArray(type)) return list(holder, key, path, label);
    if (!isRecord(type)) return scalar(holder, key, path, label);
    if (value === null) holder[key] = {};
    return make("fieldset", "", make("legend", "", label), ...parts(holder[key], path));
  };
  const parts = (value, path) => {
    const names = new Set([...Object.keys(value), ...[...seen.keys()].filter((each) => each.startsWith(`${path}.`))
      .map((each) => each.slice(path.length + 1)).filter((each) => !/[.[]/.test(each))]);
    for (const name of names) if (value[name] === undefined) value[name] = null;
    const isPlain = (name) => typeof (value[name] ?? about(`${path}.${name}`).example) !== "object";
    const order = [...names].filter(isPlain).concat([...names].filter((name) => !isPlain(name)));
    return order.map((name) => part(value, name, `${path}.${name}`, name));
  };
  const inShort = (member) => {
    const values = Object.values(member).filter((each) => each !== null && typeof each !== "object");
    const text = values.join(", ");
    return text.length > 80 ? `${text.slice(0, 79)}…` : text;
  };
  const list = (holder, key, path, label) => {
    const body = make("div", "members-of"), legend = make("legend", "");
    const members = () => holder[key] || [];
    const change = (some) => { holder[key] = some; draw(); update(); };
    const draw = () => {
      legend.textContent = `${label}: ${members().length}`;
      body.replaceChildren(...members().map((member, i) => {
        const name = `${label} ${i + 1}`;
        const buttons = make("span", "buttons",
          button("Copy", `Copy ${name}`, () => change([...members().slice(0, i + 1), copy(member), ...members().slice(i + 1)])),
          button("Remove", `Remove ${name}`, () => change(members().filter((_, j) => j !== i))));
        if (!isRecord(member)) return make("div", "member", part(members(), i, `${path}[]`, name), buttons);
        const details = make("details", "member", make("summary", "", `${i + 1} `, make("i", "", inShort(member))));
        details.addEventListener("toggle", () => {
          if (details.open && details.childElementCount === 1) details.append(...parts(member, `${path}[]`), buttons);
        });
        return details;
      }));
    };
    draw();
    const example = about(`${path}[]`).example;
    const add = button("Add", `Add to ${label}`, () => change([...members(), copy(members()[members().length - 1] ?? example ?? null)]));
    return make("fieldset", "bag", legend, body, add);
  };

  // The rule ------------------------------------------------------------------------------------

  const pill = (name) => make("span", `class class${classes.indexOf(name) % 6}`, name);
  const update = () => {
    const rule = ruleOf(rules, record);
    result.replaceChildren("By the rules: ", rule ? pill(rule.label) : "no class");
    if (rule && before && rule.label !== before.label) result.append(" instead of ", pill(before.label));
    if (rule) {
      const link = make("a", "", `rule ${rule.number}`), text = document.querySelector(`#rule-${rule.number} .text`);
      link.href = `#rule-${rule.number}`;
      result.append(", by ", link);
      if (text) result.append(": ", ...[...text.childNodes].slice(1).map((each) => each.cloneNode(true)));
    }
    source.value = JSON.stringify(record, null, 1);
    source.setCustomValidity("");
  };
  const open = (next) => {
    record = next;
    form.replaceChildren(...parts(record, ""));
    update();
  };
  const choose = () => {
    record = copy(records[choice.value][1]);
    before = ruleOf(rules, record);
    open(record);
  };
  for (const [index, [name]] of Object.entries(records)) {
    const option = make("option", "", name);
    option.value = index;
    choice.append(option);
  }
  choice.addEventListener("change", choose);
  byId("what-if-reset").addEventListener("click", choose);
  byId("what-if-form").addEventListener("submit", (event) => event.preventDefault());
  source.addEventListener("change", () => {
    try {
      const next = JSON.parse(source.value);
      if (!isRecord(next)) throw new Error("Expected an object.");
      open(next);
    } catch (error) {
      source.setCustomValidity(error.message);
      source.reportValidity();
    }
  });
  document.addEventListener("what-if", (event) => {
    choice.value = String(event.detail);
    choose();
    byId("what-if").scrollIntoView();
    choice.focus();
  });
  choose();
})();
