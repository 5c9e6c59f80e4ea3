// Prints items in an order that does not depend on the table.
const sorted = (value) =>
  value instanceof Set ? { set: [...value].sort() }
  : value instanceof Date ? { date: value.toISOString() }
  : Array.isArray(value) ? value.map(sorted)
  : value && typeof value === "object" ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]))
  : value;

export const show = (items) => console.log(items.map((item) => JSON.stringify(sorted(item))).sort().join("\n"));
