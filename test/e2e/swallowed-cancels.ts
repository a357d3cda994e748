import { parseAst } from 'vitest/node';

interface Node {
  readonly type: string;
  readonly start: number;
  readonly [field: string]: unknown;
}

const functions = new Set(['ArrowFunctionExpression', 'FunctionExpression']);

/**
 * Returns the source text of orchestration code that swallows a cancel: a `catch` (clause, method or second
 * argument of `then`) that never throws, and an `allSettled` without `throwIfCanceled`.
 */
export function findSwallowedCancels(code: string): readonly string[] {
  const found: string[] = [];
  for (const call of nodesOf(parseAst(code, { lang: 'ts' }) as unknown as Node)) {
    if (call.type !== 'CallExpression' || nameOf(call['callee']) !== 'orchestration') continue;
    for (const handler of listOf(call['arguments'])) {
      if (functions.has(handler.type)) {
        found.push(...swallowersIn(handler).map(({ start }) => excerpt(code, start)));
      }
    }
  }
  return found;
}

function swallowersIn(handler: Node): readonly Node[] {
  const nodes = [...nodesOf(handler, isShield)];
  const passesOn = nodes.some((node) => memberOf(node) === 'throwIfCanceled');
  return nodes.filter((node) => {
    if (node.type === 'CatchClause') return !throws(node);
    const member = memberOf(node);
    if (member === 'allSettled') return !passesOn;
    const [first, second] = listOf(node['arguments']);
    const callback = member === 'catch' ? first : member === 'then' ? second : undefined;
    return callback !== undefined && !throws(callback);
  });
}

function throws(node: Node): boolean {
  return [...nodesOf(node)].some(
    (inner) => inner.type === 'ThrowStatement' || memberOf(inner) === 'throwIfCanceled',
  );
}

/** Returns the method name of a call. */
function memberOf(node: Node): string | undefined {
  if (node.type !== 'CallExpression') return undefined;
  const callee = node['callee'] as Node;
  return callee.type === 'MemberExpression' ? nameOf(callee['property']) : undefined;
}

/** A cancel does not reach code inside a shield. */
function isShield(node: Node): boolean {
  return memberOf(node) === 'shield';
}

function nameOf(node: unknown): string | undefined {
  const { type, name } = node as { type: string; name?: string };
  return type === 'Identifier' ? name : undefined;
}

function listOf(value: unknown): readonly Node[] {
  return Array.isArray(value) ? (value as readonly Node[]) : [];
}

function* nodesOf(node: Node, skip: (node: Node) => boolean = () => false): Generator<Node> {
  if (skip(node)) return;
  yield node;
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof (child as Node | null)?.type === 'string') yield* nodesOf(child as Node, skip);
    }
  }
}

function excerpt(code: string, start: number): string {
  return code.slice(start, start + 80).split('\n')[0] ?? '';
}
