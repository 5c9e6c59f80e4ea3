// Writes items with values that are easily lost, updates some, or reads all items, after the page on DynamoDB-Toolbox.
import { PutItemCommand } from "dynamodb-toolbox/entity/actions/put";
import { $add, UpdateItemCommand } from "dynamodb-toolbox/entity/actions/update";
import { ScanCommand } from "dynamodb-toolbox/table/actions/scan";
import { Depot, Driver, Parcel } from "./depot.mjs";
import { show } from "./show.mjs";

const put = (entity, item) => entity.build(PutItemCommand).item(item).send();

if (process.argv[2] === "write") {
  await put(Driver, { driverId: "Zoë #1", name: "", badges: new Set(["ü", "a b", "#"]) });
  await put(Driver, { driverId: "d2", name: "Bo" });
  const parcel = { driverId: "d2", due: "2026-02-01", address: { street: "" } };
  await put(Parcel, { ...parcel, parcelId: "p#1", grams: 0.1, hub: "Nørd 1", stops: ["", "b", "b"] });
  await put(Parcel, { ...parcel, parcelId: "p2", grams: Number.MIN_SAFE_INTEGER, state: "delivered", expires: 4102444800 });
  await put(Parcel, { ...parcel, parcelId: "p3", signature: null, scan: { "é": ["\u2028", null, 1e20, -0.000001, {}] }, grams: 1e-7, address: { street: "x", floor: -1 } });
  await put(Parcel, { ...parcel, parcelId: "p4", signature: "", scan: {}, due: "2027-01-01" });
  await Parcel.build(UpdateItemCommand).item({ driverId: "d2", parcelId: "p4", state: "delivered" }).send();
} else if (process.argv[2] === "update") {
  const change = { driverId: "d2", grams: $add(5), due: "2027-01-02" };
  await Parcel.build(UpdateItemCommand).item({ ...change, parcelId: "p4", state: "waiting" }).send();
  await Parcel.build(UpdateItemCommand).item({ ...change, parcelId: "p3", state: "delivered" }).send();
} else {
  const { Items } = await Depot.build(ScanCommand).entities(Driver, Parcel).options({ consistent: true }).send();
  show(Items);
}
