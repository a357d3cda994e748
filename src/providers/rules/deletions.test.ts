import { expect, it } from 'vitest';
import { deletionObstacle } from './deletions.ts';

const row = (instanceId: string) =>
  ({ instanceId, incarnation: `${instanceId}1`, status: 'completed', isHandling: 0 }) as const;
const tree = { instanceIds: ['child', 'root'], force: false };
const rows = [row('child'), row('root')];
const link = { instanceId: 'child', parentInstanceId: 'root' };

it('a tree of ended instances, children first, can be deleted', () => {
  expect(deletionObstacle(tree, rows, () => [link])).toBe(undefined);
  expect(deletionObstacle(tree, [], () => [])).toBe(undefined);
});

it('a tree whose root has another incarnation, or is missing, is replaced', () => {
  const of = (rootIncarnation: string, found = rows) =>
    deletionObstacle({ ...tree, rootIncarnation, force: true }, found, () => []);
  expect(of('root1')).toBe(undefined);
  expect(of('root2')).toEqual({ kind: 'replaced' });
  expect(of('child1', [row('child')])).toEqual({ kind: 'replaced' });
  expect(of('root1', [])).toEqual({ kind: 'replaced' });
});

it('an instance that has not ended, or whose onFail handler has not, needs force', () => {
  const active = [
    { ...row('child'), status: 'canceling' },
    { ...row('child'), status: 'failed', isHandling: 1 },
    { ...row('child'), status: 'failed', isHandling: true },
  ] as const;
  for (const child of active) {
    const found = [child, row('root')];
    const { status } = child;
    expect(deletionObstacle(tree, found, () => [link])).toEqual({
      kind: 'running',
      instanceId: 'child',
      status,
    });
    expect(deletionObstacle({ ...tree, force: true }, found, () => [link])).toBe(undefined);
  }
});

it('a child that is not listed, or is listed after its parent, is an orphan', () => {
  const orphan = { kind: 'orphan', ...link };
  expect(deletionObstacle(tree, [row('root')], () => [link])).toEqual(orphan);
  expect(deletionObstacle(tree, rows.toReversed(), () => [link])).toEqual(orphan);
});
