import { pathsOf } from './condition.ts';
import { invalidFlow, quote } from './flow-errors.ts';
import { inputName, sourceOf, type FlowGraph, type StepNode } from './graph.ts';

/** Names that handler inputs use for the flow's input and the signal's payload. */
const reserved: readonly string[] = [inputName, 'signal'];

/** A key that JSON decoding does not preserve. */
const unstorable = '__proto__';

/** Validates a graph. Throws `INVALID_FLOW`. */
export function checkGraph(graph: FlowGraph): void {
  checkNames(graph);
  for (const node of graph.steps) checkDependencies(node, graph);
  checkCycles(graph);
  checkSignals(graph);
  checkOutput(graph);
}

/** Returns a valid step name. Throws `INVALID_FLOW`. */
export function checkStepName(flow: string, name: unknown): string {
  if (typeof name !== 'string' || name === '') {
    throw invalidFlow(`A step of flow ${quote(flow)} has no name: pass a non-empty string.`);
  }
  if (reserved.includes(name)) {
    throw invalidFlow(
      `Flow ${quote(flow)} has a step named ${quote(name)}, which is reserved for the flow's ${name}. Choose another name.`,
    );
  }
  if (name === unstorable) {
    throw invalidFlow(
      `Flow ${quote(flow)} has a step named ${quote(name)}, which cannot be stored as a key. Choose another name.`,
    );
  }
  if (/[/$]/.test(name)) {
    throw invalidFlow(`Step name ${quote(name)} of flow ${quote(flow)} must not contain / or $.`);
  }
  return name;
}

function checkNames({ name: flow, steps }: FlowGraph): void {
  if (steps.length === 0) {
    throw invalidFlow(`Flow ${quote(flow)} has no steps. Add one with .step(name, handler).`);
  }
  const seen = new Set<string>();
  for (const { name } of steps) {
    if (seen.has(name)) {
      throw invalidFlow(
        `Flow ${quote(flow)} has two steps named ${quote(name)}. Rename one of them.`,
      );
    }
    seen.add(name);
  }
}

function checkDependencies(node: StepNode, graph: FlowGraph): void {
  const find = (name: string): StepNode => {
    const found = graph.steps.find((step) => step.name === name);
    if (found !== undefined) return found;
    throw invalidFlow(
      `Step ${quote(node.name)} of flow ${quote(graph.name)} depends on ${quote(name)}, which is not a step. Steps: ${graph.steps.map((step) => step.name).join(', ')}.`,
    );
  };
  for (const name of [...node.optional, ...node.after]) find(name);
  for (const name of node.needs) {
    if (find(name).when === undefined) continue;
    throw invalidFlow(
      `Step ${quote(node.name)} of flow ${quote(graph.name)} needs ${quote(name)}, which its condition may skip. List it in \`optional\`, and accept undefined in the handler.`,
    );
  }
  const source = sourceOf(node);
  if (source !== undefined && find(source).when !== undefined) {
    throw invalidFlow(
      `Step ${quote(node.name)} of flow ${quote(graph.name)} reads the items of ${quote(source)}, which its condition may skip. Add a step between them that always returns an array.`,
    );
  }
  checkCondition(node, graph);
}

function checkCondition(node: StepNode, graph: FlowGraph): void {
  const seen = [inputName, ...node.needs, ...node.optional];
  const unseen = (node.when === undefined ? [] : pathsOf(node.when)).find(
    ([name]) => !seen.includes(name),
  );
  if (unseen === undefined) return;
  throw invalidFlow(
    `The condition of step ${quote(node.name)} of flow ${quote(graph.name)} reads ${quote(unseen[0])}. List it in \`needs\` or \`optional\`.`,
  );
}

function checkCycles(graph: FlowGraph): void {
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (node: StepNode): void => {
    if (trail.includes(node.name)) {
      const cycle = [...trail.slice(trail.indexOf(node.name)), node.name].join(' -> ');
      throw invalidFlow(
        `Flow ${quote(graph.name)} has a cycle: ${cycle}. Remove one of these dependencies.`,
      );
    }
    if (done.has(node.name)) return;
    trail.push(node.name);
    const source = sourceOf(node);
    const names = [...node.needs, ...node.optional, ...node.after, ...(source ? [source] : [])];
    for (const next of graph.steps.filter(({ name }) => names.includes(name))) visit(next);
    trail.pop();
    done.add(node.name);
  };
  for (const node of graph.steps) visit(node);
}

function checkSignals({ name: flow, steps }: FlowGraph): void {
  const owners = new Map<string, string>();
  for (const { name, signal } of steps) {
    if (signal === undefined) continue;
    if (signal === unstorable) {
      throw invalidFlow(
        `Step ${quote(name)} of flow ${quote(flow)} waits for signal ${quote(signal)}, which cannot be stored as a key. Choose another name.`,
      );
    }
    const owner = owners.get(signal);
    if (owner !== undefined) {
      throw invalidFlow(
        `Steps ${quote(owner)} and ${quote(name)} of flow ${quote(flow)} wait for the same signal ${quote(signal)}. Let one step wait, and list it in \`after\` of the other.`,
      );
    }
    owners.set(signal, name);
  }
}

function checkOutput({ name: flow, steps, output }: FlowGraph): void {
  for (const [index, name] of output.entries()) {
    const node = steps.find((step) => step.name === name);
    if (node === undefined) {
      throw invalidFlow(
        `The output of flow ${quote(flow)} names ${quote(name)}, which is not a step. Steps: ${steps.map((step) => step.name).join(', ')}.`,
      );
    }
    if (output.indexOf(name) !== index) {
      throw invalidFlow(
        `The output of flow ${quote(flow)} names ${quote(name)} twice. Remove one.`,
      );
    }
  }
}

/** Throws `INVALID_FLOW` if an explicit output candidate can never be chosen. */
export function checkReachable({ name: flow, steps, output }: FlowGraph): void {
  const index = output.findIndex(
    (name) => steps.find((step) => step.name === name)?.when === undefined,
  );
  const unreachable = index === -1 ? undefined : output[index + 1];
  if (unreachable === undefined) return;
  throw invalidFlow(
    `Output ${quote(unreachable)} of flow ${quote(flow)} is unreachable: ${quote(output[index])} before it has no condition, so it always completes. Put ${quote(unreachable)} first, or remove it.`,
  );
}

/** Returns a valid flow name. Throws `INVALID_FLOW`. */
export function checkFlowName(name: unknown): string {
  if (typeof name === 'string' && name !== '' && !name.includes('$')) return name;
  throw invalidFlow(`Invalid flow name ${quote(name)}: must be a non-empty string without $.`);
}
