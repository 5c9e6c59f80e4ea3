// Writes items with values that are easily lost, updates some, or reads all items, after the page on Dynamoose.
import { Label, Recording } from "./music.mjs";
import { show } from "./show.mjs";

if (process.argv[2] === "write") {
  await Label.create({ id: "l 1" });
  await Label.create({ id: "l#2", name: "" });
  const recording = { artist: "Zoë #1", released: new Date(0), title: "" };
  await Recording.create({ ...recording, id: "r1", tags: new Set(["ü", "a b", "#"]), credits: ["", "b", "b"] });
  await Recording.create({ ...recording, id: "r2", genre: "pop", plays: Number.MAX_SAFE_INTEGER, released: new Date(-1), label: "l 1" });
  await Recording.create({ ...recording, id: "r3", genre: "jazz", plays: -1, note: null, studio: {}, remastered: new Date(1) });
  await Recording.create({ ...recording, id: "r4", note: "", studio: { name: "", city: "Köln" } });
  await Recording.update({ id: "r4" }, { $SET: { artist: "B", title: "T", genre: "pop" }, $ADD: { plays: 3 } });
} else if (process.argv[2] === "update") {
  await Recording.update({ id: "r1" }, { $SET: { artist: "C", title: "U", genre: "jazz" }, $ADD: { plays: 1 } });
} else {
  show([...(await Label.scan().exec()), ...(await Recording.scan().exec())].map((item) => item.toJSON()));
}
