// The official TypeScript client: prints one JSON object that the test checks.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, echo] = process.argv.slice(2);
const client = new Client({ name: "typescript", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const listed = await client.listTools();
const searched = await client.callTool({
  name: "search_tools",
  arguments: { queries: ["give back the arguments as they came"] },
});
const progress = [];
const called = await client.callTool(
  { name: "call_read_tool", arguments: { name: echo, arguments: { text: "iš TypeScript" } } },
  undefined,
  { onprogress: (step) => progress.push(step.progress) },
);
console.log(
  JSON.stringify({
    version: transport.protocolVersion,
    instructions: client.getInstructions(),
    tools: listed.tools.map((tool) => tool.name),
    searched: searched.content[0].text,
    called: called.content[0].text,
    isError: called.isError ?? false,
  }),
);
await client.close();
