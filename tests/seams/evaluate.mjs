// Evaluates IAM requests. Each line of standard input is a JSON list of simulations. The program writes the answers to
// standard output, as a JSON list in one line.
// @cloud-copilot/iam-simulate is AGPL-3.0: a program that the tests run, and no part of what Trainway installs or ships.
import { runSimulation } from "@cloud-copilot/iam-simulate";
import { createInterface } from "node:readline";

async function answers(text) {
  const found = [];
  for (const simulation of JSON.parse(text)) {
    const answer = await runSimulation(simulation, { simulationMode: "Strict" });
    found.push({
      result: answer.resultType === "error" ? "Error" : answer.overallResult,
      errors: answer.errors ?? null,
      ignored: answer.result?.ignoredContextKeys ?? [],
    });
  }
  return JSON.stringify(found);
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${await answers(line)}\n`);
}
