// The class of a record, by rules that are data: `_runtime.py` in JavaScript (ECMAScript 2020).

const DAY = 86400;
const FARTHEST = 3e11; // seconds from 1970
const LARGEST = 3.4028234663852886e38; // of float32, which is what the network reads
const WHOLE = 2 ** 53; // below it, numbers tell integers apart
const LONGEST = 64; // characters of what may be a number or a time
const NUMBER = /^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const THOUSANDS = /^[+-]?(0|[1-9][0-9]{0,2}(,[0-9]{3})*)(\.[0-9]+)?$/;
const INTEGER = /^[+-]?[0-9]+$/;
const ISO = new RegExp(
  "^([0-9]{4})-(0[1-9]|1[0-2])(?:-(0[1-9]|[12][0-9]|3[01])" +
    "(?:[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]+))?)?" +
    "(?:Z|([+-])([0-9]{2})(?::?([0-5][0-9]))?)?)?)?$"
);
const TRUE = ["true", "yes", "y", "t", "1"], FALSE = ["false", "no", "n", "f", "0"];

// The rule that holds for a record, an object: with its "label", its "number" and its "text".
function ruleOf(rules, record) {
  if (!isObject(record)) throw new TypeError(`Expected an object. Received: ${record}`);
  return ruleFor(rules, rules.kinds[rules.kinds.length - 1], record);
}

function ruleFor(rules, kind, node) {
  const known = new Map();
  const found = kind.rules.find((rule) =>
    rule.all.every((condition) => holds(rules, kind, node, condition, known))
  );
  return found === undefined ? null : found;
}

// Whether a condition holds; what is `known` of the node is computed once.
function holds(rules, kind, node, condition, known) {
  const isOfMembers = "members" in condition;
  const key = isOfMembers ? `members ${condition.members}` : condition.column;
  if (!known.has(key)) {
    known.set(key, isOfMembers
      ? labelsOf(rules, rules.kinds[condition.members], node)
      : columnOf(node, kind.columns[condition.column]));
  }
  let x = known.get(key);
  if (isOfMembers) {
    const n = x.filter((label) => label === condition.label).length;
    x = condition.measure !== "frequency" ? n : n ? n / x.length : 0;
  }
  if ("wanted" in condition) {
    let isFound = x === condition.value;
    if (isOfMembers) isFound = x > 0;
    else if (condition.value !== null && condition.measure === "token") {
      isFound = x !== null && x.has(condition.value);
    }
    return isFound === condition.wanted;
  }
  if (x === null) return condition.missing;
  if (typeof x === "object") x = x[condition.value]; // a time
  const { above, at_most: atMost, present } = condition;
  return present && (above === null || x > above) && (atMost === null || x <= atMost);
}

// The clusters that the members of a bag are in.
function labelsOf(rules, kind, node) {
  return membersOf(node, kind.bag).map((member) => {
    const rule = ruleFor(rules, kind, member);
    return rule && rule.label;
  });
}

// Values -------------------------------------------------------------------------------------------

function columnOf(node, column) {
  if ("of" in column) return statisticOf(node, column);
  const x = valueOf(node, column);
  if (x === null) return null;
  if (column.kind === "text") return new Set(x.toLowerCase().match(/[\p{L}\p{N}]+/gu) || []);
  return column.kind === "time" ? partsOf(x) : x;
}

// What steps lead to from an object or a list: a key, or a position in a list of some length.
function at(node, steps) {
  for (const step of steps) {
    if (typeof step === "string") {
      node = isObject(node) && Object.prototype.hasOwnProperty.call(node, step) ? node[step] : null;
    } else {
      node = Array.isArray(node) && node.length === step[1] ? node[step[0]] : null;
    }
  }
  return node;
}

function isObject(x) {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}

// The members of a bag; of an object whose keys are data, pairs of key and value.
function membersOf(node, bag) {
  const found = at(node, bag.at);
  if (bag.by_key) {
    return isObject(found) ? Object.entries(found).filter(([, value]) => value !== null) : [];
  }
  return Array.isArray(found) ? found : [];
}

// A number, a boolean as 1 or 0, a text, or a time in seconds; null if it is missing.
function valueOf(node, read) {
  let x = at(node, read.at);
  const type = typeOf(x);
  if (!read.types.includes(type)) return null;
  const { kind, form } = read;
  if (kind === "category" && type === "number") return String(x);
  if (kind === "category" || kind === "text") return x === "\0" ? null : x;
  if (kind === "time") return timeOf(x, type, form);
  if (type === "text") x = lengthOf(x) <= LONGEST ? parsed(strip(x), kind, form) : null;
  if (x === null) return null;
  if (kind === "boolean") return Number(x) === 0 || Number(x) === 1 ? Number(x) : null;
  return Math.fround(Number(x));
}

function typeOf(x) {
  if (typeof x === "boolean") return "boolean";
  if (typeof x === "string") return "text";
  if (x instanceof Date) return "time";
  return typeof x === "number" && Math.abs(x) <= LARGEST ? "number" : null;
}

function lengthOf(text) {
  return [...text].length;
}

function strip(text) {
  return text.replace(/^\s+|\s+$/gu, "");
}

function parsed(text, kind, form) {
  if (kind === "boolean") {
    text = text.toLowerCase();
    return TRUE.includes(text) ? 1 : FALSE.includes(text) ? 0 : null;
  }
  if (!(form === "thousands" ? THOUSANDS : NUMBER).test(text)) return null;
  const plain = text.replace(/,/g, "");
  const x = Number(plain);
  const isWide = INTEGER.test(plain) && Math.abs(x) >= WHOLE;
  return isWide || Math.abs(x) > LARGEST ? null : x;
}

// Seconds since 1970 (UTC).
function timeOf(x, type, form) {
  if (type === "number") return x / (form === "milliseconds" ? 1000 : 1);
  if (type === "time") return Number.isNaN(x.getTime()) ? null : x.getTime() / 1000;
  const match = lengthOf(x) <= LONGEST && ISO.exec(strip(x));
  if (!match) return null;
  const [, year, month, day, hour, minute, second, fraction, sign, hours, minutes] = match;
  const days = daysOf(Number(year), Number(month), Number(day || 1));
  if (days === null || Number(hours || 0) > 23) return null;
  const offset = (Number(hours || 0) * 60 + Number(minutes || 0)) * 60 * (sign === "-" ? -1 : 1);
  const clock = (Number(hour || 0) * 60 + Number(minute || 0)) * 60 + Number(second || 0);
  const micro = fraction ? Number(fraction.slice(0, 6).padEnd(6, "0")) / 1e6 : 0;
  return days * DAY + clock - offset + micro;
}

// Days since 1970; null for a day that a month does not have, and for the year 0.
function daysOf(year, month, day) {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return year > 0 && date.getUTCDate() === day ? date.getTime() / 1000 / DAY : null;
}

function partsOf(seconds) {
  const clipped = Math.min(Math.max(seconds, -FARTHEST), FARTHEST);
  const days = Math.floor(clipped / DAY);
  const date = new Date(days * DAY * 1000);
  return {
    day: clipped / DAY,
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    weekday: ((((days + 3) % 7) + 7) % 7) + 1,
    hour: Math.floor((clipped - days * DAY) / 3600),
  };
}

// Statistics of bags -------------------------------------------------------------------------------

// A number, share, mean, minimum, maximum, standard deviation or sum of members of a bag.
function statisticOf(node, column) {
  const members = column.in.reduce((nodes, bag) => nodes.flatMap((x) => membersOf(x, bag)), [node]);
  if (column.read === null) {
    const n = column.test === null ? members.length : count(members, column.test);
    if (column.of === "number") return n;
    return members.length ? n / members.length : null;
  }
  const values = members.map((x) => valueOf(x, column.read)).filter((x) => x !== null);
  if (!values.length) return null;
  const total = sum(values), mean = total / values.length;
  switch (column.of) {
    case "mean": return mean;
    case "sum": return total;
    case "minimum": return values.reduce((x, y) => Math.min(x, y));
    case "maximum": return values.reduce((x, y) => Math.max(x, y));
    default: return Math.sqrt(sum(values.map((x) => (x - mean) ** 2)) / values.length);
  }
}

function sum(values) {
  return values.reduce((x, y) => x + y, 0);
}

function count(members, test) {
  return members.filter((member) => isTrue(member, test)).length;
}

// Whether something is true of a member.
function isTrue(node, test) {
  if ("all" in test) return test.all.every((each) => isTrue(node, each));
  if ("holds" in test) {
    const members = membersOf(node, test.bag);
    return members.length === sum(test.holds.map(([n]) => n)) &&
      test.holds.every(([n, inner]) => count(members, inner) === n);
  }
  const x = valueOf(node, test.read);
  if ("other" in test) return !test.other.includes(x);
  if ("above" in test) return x !== null && x > test.above;
  if ("at_most" in test) return x !== null && x <= test.at_most;
  if ("word" in test) return x !== null && wordsOf(x).includes(test.word);
  return x === test.is;
}

// Letters, with their marks, and digits.
function wordsOf(text) {
  return text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) || [];
}
