// Writes the items that the page on ElectroDB shows, or items with values that are easily lost, updates some, or reads all.
import { show } from "./show.mjs";
import { app } from "./taskapp.mjs";

const { employee, task } = app.entities;

if (process.argv[2] === "page") {
  await employee.create({ employeeId: "E7", name: "Ann Lee", team: "Core", salary: 5000 }).go();
  const at = { due: "2026-02-01", createdAt: 1767614400000 };
  await task.create({ project: "Web Site#2", taskId: "T1", team: "Core", points: 3, tags: ["new", "css"], ...at }).go();
} else if (process.argv[2] === "write") {
  await employee.create({ employeeId: "ZOË Σ#1", name: "", team: "ΑΣ b" }).go();
  await employee.create({ employeeId: "e 2", name: "B", team: "b", salary: -1 }).go();
  await employee.patch({ employeeId: "e 2" }).set({ team: "C" }).go();
  await task.create({ project: "P|1", taskId: "#", team: "C", status: "closed", due: "2026-03-01", tags: ["ü", "a b", "#"] }).go();
  await task.create({ project: "p", taskId: "t", team: "C", due: "2026-02-01", points: Number.MIN_SAFE_INTEGER }).go();
} else if (process.argv[2] === "update") {
  await task.patch({ project: "p", taskId: "t" }).set({ status: "closed", due: "2026-02-02" }).add({ points: 1 }).go();
  await employee.patch({ employeeId: "e 2" }).set({ team: "D" }).go();
} else {
  const all = { pages: "all" };
  show([...(await employee.scan.go(all)).data, ...(await task.scan.go(all)).data]);
}
