// Prints the name of the claim CLAIM, which it fetches with the generated types.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const client = createClient<paths>({
  baseUrl: process.env.DRAGOMAN_URL,
  headers: { Authorization: `Bearer ${process.env.DRAGOMAN_TOKEN}` },
});
const { data, error } = await client.GET("/api/v1/claims/{id}/", {
  params: { path: { id: process.env.CLAIM ?? "" } },
});
if (data === undefined) throw new Error(JSON.stringify(error));
const name: string = data.name;
console.log(name);
