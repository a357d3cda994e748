import { inputName, sourceOf, type FlowGraph, type StepNode } from './graph.ts';
import { pathsOf } from './condition.ts';
import { invalidFlow } from './flow-errors.ts';

/** Names that the inputs of a handler use for something else. */
const reserved: readonly string[] = [inputName, 'signal'];

/** A key that no stored object keeps. */
const unstorable = '__proto__';

/** Refuses a graph that could not run as its author means it, and says what to change. */
export function checkGraph(graph: FlowGraph): void {
  checkNames(graph);
  for (const node of graph.steps) checkDependencies(node, graph);
  checkCycles(graph);
  checkSignals(graph);
  checkOutput(graph);
}

/** Refuses a name that cannot be a step's. */
export function checkStepName(flow: string, name: unknown): string {
  if (typeof name !== 'string' || name === '') {
    throw invalidFlow(`A step of flow '${flow}' has no name. Give each step a text as its name.`);
  }
  if (reserved.includes(name)) {
    throw invalidFlow(
      `Flow '${flow}' has a step named '${name}', but handlers find the flow's ${name} under that name. Choose another.`,
    );
  }
  if (name === unstorable) {
    throw invalidFlow(
      `Flow '${flow}' has a step named '${name}', which stored data cannot have as a key. Choose another.`,
    );
  }
  if (/[/$]/.test(name)) {
    throw invalidFlow(`Step name '${name}' of flow '${flow}' must not contain / or $.`);
  }
  return name;
}

function checkNames({ name: flow, steps }: FlowGraph): void {
  if (steps.length === 0) {
    throw invalidFlow(`Flow '${flow}' has no steps. Add one with .step(name, handler).`);
  }
  const seen = new Set<string>();
  for (const { name } of steps) {
    if (seen.has(name)) {
      throw invalidFlow(`Flow '${flow}' has two steps named '${name}'. Rename one of them.`);
    }
    seen.add(name);
  }
}

function checkDependencies(node: StepNode, graph: FlowGraph): void {
  const find = (name: string): StepNode => {
    const found = graph.steps.find((step) => step.name === name);
    if (found !== undefined) return found;
    throw invalidFlow(
      `Step '${node.name}' of flow '${graph.name}' depends on '${name}', which is not a step. Known: ${graph.steps.map((step) => step.name).join(', ')}.`,
    );
  };
  for (const name of [...node.optional, ...node.after]) find(name);
  for (const name of node.needs) {
    if (find(name).when === undefined) continue;
    throw invalidFlow(
      `Step '${node.name}' of flow '${graph.name}' needs '${name}', which its condition may skip. Name it in optional, and let the handler accept undefined.`,
    );
  }
  const source = sourceOf(node);
  if (source !== undefined && find(source).when !== undefined) {
    throw invalidFlow(
      `Step '${node.name}' of flow '${graph.name}' takes the items of '${source}', which its condition may skip. Put a step between them that always gives an array.`,
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
    `The condition of step '${node.name}' of flow '${graph.name}' looks at '${unseen[0]}'. Name it in needs or optional.`,
  );
}

function checkCycles(graph: FlowGraph): void {
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (node: StepNode): void => {
    if (trail.includes(node.name)) {
      const cycle = [...trail.slice(trail.indexOf(node.name)), node.name].join(' -> ');
      throw invalidFlow(
        `Flow '${graph.name}' has a cycle: ${cycle}. Remove one of these dependencies.`,
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
        `Step '${name}' of flow '${flow}' waits for a signal '${signal}', which stored data cannot have as a key. Choose another name.`,
      );
    }
    const owner = owners.get(signal);
    if (owner !== undefined) {
      throw invalidFlow(
        `Steps '${owner}' and '${name}' of flow '${flow}' wait for the same signal '${signal}'. Let one wait and the other come after it.`,
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
        `The output of flow '${flow}' is taken from '${name}', which is not a step. Known: ${steps.map((step) => step.name).join(', ')}.`,
      );
    }
    if (output.indexOf(name) !== index) {
      throw invalidFlow(`The output of flow '${flow}' names '${name}' twice. Name it once.`);
    }
  }
}

/** Refuses an explicit list of outputs in which one can never be chosen. */
export function checkReachable({ name: flow, steps, output }: FlowGraph): void {
  const index = output.findIndex(
    (name) => steps.find((step) => step.name === name)?.when === undefined,
  );
  const unreachable = index === -1 ? undefined : output[index + 1];
  if (unreachable === undefined) return;
  throw invalidFlow(
    `Output '${unreachable}' of flow '${flow}' is unreachable: '${output[index] ?? ''}' before it has no condition, so it always completes. Put '${unreachable}' first, or leave it out.`,
  );
}

/** Refuses a name that cannot be a flow's. */
export function checkFlowName(name: unknown): string {
  if (typeof name === 'string' && name !== '' && !name.includes('$')) return name;
  throw invalidFlow('A flow needs a text without $ as its name.');
}
