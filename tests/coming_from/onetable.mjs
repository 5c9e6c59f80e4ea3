// Writes items with values that are easily lost, updates some, or reads all items, after the page on OneTable.
import { Account, User } from "./crm.mjs";
import { show } from "./show.mjs";

if (process.argv[2] === "write") {
  await Account.create({ id: "Zoë: 1", name: "", balance: 0.1 });
  await Account.create({ id: "a2", name: "B", plan: "paid", balance: Number.MIN_SAFE_INTEGER, address: { street: "" } });
  await Account.update({ id: "a2", address: { zip: "1" } });
  const user = { accountId: "a2", role: "user" };
  await User.create({ ...user, userId: "u 1", email: "Zoë#x@example.com", tags: new Set(["ü", "a b", "#"]) });
  await User.create({ ...user, userId: "u2", email: "b@example.com", seen: new Date(1), expires: new Date("2100-01-01") });
  await User.create({ accountId: "a2", userId: "u3", email: "c@example.com", nick: "" });
  await User.create({ accountId: "a2", userId: "u4", email: "e@example.com" });
  await User.update({ accountId: "a2", userId: "u3", email: "d@example.com", role: "admin" });
} else if (process.argv[2] === "update") {
  await Account.update({ id: "a2" }, { add: { balance: 1 } });
  await User.update({ accountId: "a2", userId: "u2", role: "admin" });
  await User.update({ accountId: "a2", userId: "u4", role: "user" });
} else {
  show([...(await Account.scan()), ...(await User.scan())]);
}
