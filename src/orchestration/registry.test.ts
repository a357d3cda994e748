import { describe, expect, it } from 'vitest';
import { activity } from './activity.ts';
import { orchestration, type OrchestrationDefinition } from './orchestration.ts';
import { Registry } from './registry.ts';

const handler = async () => undefined;
const version = (text: string) => orchestration('order', handler, { version: text });

describe('Registry', () => {
  it('finds each of several versions of one name', () => {
    const [one, two] = [version('1'), version('2')];
    const registry = new Registry({ orchestrations: [one, two] });
    expect(registry.find('order', '1')).toBe(one);
    expect(registry.find('order', '2')).toBe(two);
    expect(registry.find('order', '3')).toBeUndefined();
    expect(registry.find('other', '1')).toBeUndefined();
  });

  it('compares versions numerically, regardless of registration order', () => {
    const registry = new Registry({
      orchestrations: ['1.9', '1.10', '1.2'].map(version),
    });
    expect(registry.latest('order')?.version).toBe('1.10');
    expect(registry.latest('other')).toBeUndefined();
  });

  it('lists all versions, and one entry per name without a version', () => {
    const registry = new Registry({
      orchestrations: [version('1'), version('2'), orchestration('hello', handler)],
    });
    expect(registry.runnable()).toEqual([
      { name: 'order', version: null },
      { name: 'order', version: '1' },
      { name: 'order', version: '2' },
      { name: 'hello', version: null },
      { name: 'hello', version: '1' },
    ]);
  });

  it('finds activities by name', () => {
    const greet = activity('greet', handler);
    const registry = new Registry({ activities: [greet] });
    expect(registry.hasActivity('greet')).toBe(true);
    expect(registry.hasActivity('wave')).toBe(false);
    expect(registry.activities()).toEqual([greet]);
  });

  it('rejects a duplicate orchestration version and a duplicate activity', () => {
    const refusal = expect.objectContaining({ code: 'ALREADY_REGISTERED' });
    expect(() => new Registry({ orchestrations: [version('1'), version('1')] })).toThrow(refusal);
    const activities = [activity('a', handler), activity('a', handler)];
    expect(() => new Registry({ activities })).toThrow(refusal);
  });

  it('rejects values that are not definitions of the expected kind', () => {
    const refusal = expect.objectContaining({ code: 'INVALID_OPTION' });
    for (const bad of [undefined, null, handler, { name: 'a' }, activity('a', handler)]) {
      expect(() => new Registry({ orchestrations: [bad as never] })).toThrow(refusal);
    }
    expect(() => new Registry({ activities: [version('1') as never] })).toThrow(refusal);
  });

  it('build id depends on code and versions, not on order', () => {
    const buildId = (...orchestrations: OrchestrationDefinition[]) =>
      new Registry({ orchestrations }).buildId;
    const changed = orchestration('order', async () => 'changed');
    expect(buildId(version('1'), version('2'))).toBe(buildId(version('2'), version('1')));
    expect(buildId(version('1'))).not.toBe(buildId(version('2')));
    expect(buildId(version('1'))).not.toBe(buildId(changed));
    expect(buildId()).toMatch(/^[\w-]{16}$/);
  });
});
