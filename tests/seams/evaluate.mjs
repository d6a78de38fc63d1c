// Evaluates IAM requests: JSON list of simulations on standard input, JSON list of answers on standard output. With the
// argument --lines, each line of input is such a list, and each line of output has its answers.
// @cloud-copilot/iam-simulate is AGPL-3.0: a program that the tests run, and no part of what Trainway installs or ships.
import { runSimulation } from "@cloud-copilot/iam-simulate";
import { readFileSync } from "node:fs";
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

if (process.argv.includes("--lines")) {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${await answers(line)}\n`);
  }
} else {
  process.stdout.write(await answers(readFileSync(0, "utf8")));
}
