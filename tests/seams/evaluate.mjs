// Evaluates IAM requests: JSON list of simulations on standard input, JSON list of answers on standard output.
// @cloud-copilot/iam-simulate is AGPL-3.0: a program that the tests run, and no part of what Trainway installs or ships.
import { runSimulation } from "@cloud-copilot/iam-simulate";
import { readFileSync } from "node:fs";

const answers = [];
for (const simulation of JSON.parse(readFileSync(0, "utf8"))) {
  const answer = await runSimulation(simulation, { simulationMode: "Strict" });
  answers.push({
    result: answer.resultType === "error" ? "Error" : answer.overallResult,
    errors: answer.errors ?? null,
    ignored: answer.result?.ignoredContextKeys ?? [],
  });
}
process.stdout.write(JSON.stringify(answers));
