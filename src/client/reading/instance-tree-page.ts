import { notFound, PerdureError } from '../../model/failures/errors.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { TreeRecord } from '../../providers/contract/views.ts';
import { readLimit } from './instance-list.ts';

/** Options of `tree`. */
export interface TreeOptions {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
  /** Maximum depth below the instance, 0 to 100. Default 100. */
  readonly depth?: number | undefined;
}

/** An instance as a node of a tree. All times are milliseconds since the epoch. */
export interface TreeNode {
  readonly id: string;
  readonly parentId?: string;
  /** 0 for the instance that was asked for. */
  readonly depth: number;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly version?: string;
  readonly status: InstanceStatus;
  readonly executionId: number;
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** The number of direct children; 1,000 means 1,000 or more. */
  readonly children: number;
}

/** A page of a tree, depth first: each parent before its children, siblings in order of creation. */
export interface TreePage {
  readonly items: readonly TreeNode[];
  /** The `cursor` of the next page; absent on the last. */
  readonly nextCursor?: string;
}

/** Options of `tree`, checked. */
export interface TreeCall {
  readonly limit: number;
  readonly cursor?: string;
  readonly depth: number;
}

const maxDepth = 100;
const maxChildren = 1_000;

export function readTreeOptions(options: unknown): TreeCall {
  const keys = ['limit', 'cursor', 'depth'] as const;
  const { limit, cursor, depth = maxDepth } = readFields(options, 'tree()', keys);
  const isDepth = Number.isSafeInteger(depth) && (depth as number) >= 0;
  if (!isDepth || (depth as number) > maxDepth) {
    throw invalid('depth', depth, `a whole number from 0 to ${maxDepth}`);
  }
  if (cursor !== undefined) readTreeCursor(cursor);
  const page = { limit: readLimit(limit), depth: depth as number };
  return cursor === undefined ? page : { ...page, cursor: cursor as string };
}

/** Reads one page of a tree. */
export async function readTreePage(
  provider: Provider,
  instanceId: string,
  { limit, cursor, depth }: TreeCall,
): Promise<TreePage> {
  const after = cursor === undefined ? {} : { after: readTreeCursor(cursor) };
  const view = await provider.readTree({
    instanceId,
    ...after,
    limit,
    maxDepth: depth,
    maxChildren,
  });
  if (view === undefined) {
    const [record] = await provider.getInstances([instanceId]);
    if (record === undefined) throw notFound(instanceId);
    throw new PerdureError(
      'INVALID_INPUT',
      `The \`cursor\` is not of the tree of ${JSON.stringify(instanceId)}, or the tree was replaced. Read the first page again.`,
    );
  }
  const items = view.nodes.map(toNode);
  return view.next === null ? { items } : { items, nextCursor: toTreeCursor(view.next) };
}

function toNode(record: TreeRecord): TreeNode {
  const { instanceId: id, parentInstanceId, version, startedAt, endedAt } = record;
  const { depth, kind, name, status, executionId, createdAt, children } = record;
  return {
    id,
    ...(parentInstanceId !== null && { parentId: parentInstanceId }),
    depth,
    kind,
    name,
    ...(version !== null && { version }),
    status,
    executionId,
    createdAt,
    ...(startedAt !== null && { startedAt }),
    ...(endedAt !== null && { endedAt }),
    children,
  };
}

function toTreeCursor(path: readonly number[]): string {
  return `t${path.map((key) => key.toString(36)).join('.')}`;
}

function readTreeCursor(cursor: unknown): readonly number[] {
  const valid =
    typeof cursor === 'string' && /^t[0-9a-z]{1,10}(\.[0-9a-z]{1,10}){0,100}$/.test(cursor);
  if (valid)
    return cursor
      .slice(1)
      .split('.')
      .map((key) => Number.parseInt(key, 36));
  throw invalid('cursor', cursor, 'the `nextCursor` of the page before');
}
