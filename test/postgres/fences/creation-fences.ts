import assert from 'node:assert/strict';
import type { ConformanceCase } from '../../../src/testing/conformance/conformance-case.ts';
import { event, newInstance, newTurn } from '../../../src/testing/conformance/sample-data.ts';
import {
  besidePauses,
  limitedItems,
  limitKeys,
  noPause,
  type FencedStatement,
  type Selection,
} from './fence.ts';

/** The first instance registers the name, because the path is used only for known names. */
const takenId: ConformanceCase = {
  id: 'a start with a first turn and a taken id',
  title: 'the second start of an id returns exists',
  async run(store) {
    const start = (instanceId: string) =>
      newInstance(instanceId, { firstTurn: newTurn({ events: [event(instanceId)] }) });
    await store.provider.createInstances([start('known')]);
    await store.provider.createInstances([start('a')]);
    const again = await store.provider.createInstances([start('a'), start('b')]);
    assert.deepEqual(
      again.map(({ kind }) => kind),
      ['exists', 'created'],
    );
    assert.deepEqual(await store.historyLabels('a'), ['a']);
  },
};

// Written as a fence of the general path: a limited orchestration begins with its first claim.
const beginLimits: Selection = {
  find: /(?<=OR )EXISTS \(SELECT FROM \S+\.limits AS lim (?:(?! AS ok).)+(?= AS ok)/s,
  because: 'leaves starts of limited orchestrations to the general path',
};

/** Starts with a first turn. Its fences are the unique id and that no definition is paused. */
export const startFences: FencedStatement = {
  name: 'perdure_start_plainly',
  sentBy: takenId,
  fences: [
    {
      demands: 'a free id',
      find: /(?<=input_hash, place\) WHERE \(SELECT ok FROM drawn\))(?=\s+\), live)/,
      replace: ' ON CONFLICT (instance_id) DO NOTHING',
      rejectedBy: takenId,
    },
    {
      demands: noPause,
      find: /EXISTS \(SELECT FROM \S+\.paused_definitions\)(?= OR EXISTS (?:(?!AS ok).)+AS ok)/s,
      replace: 'FALSE',
      rejectedBy: 'pause/a-first-turn-of-a-definition-is-not-run',
    },
  ],
  selections: [
    {
      find: /\(SELECT ok FROM drawn\)/,
      times: 4,
      because: 'writes nothing if a definition is paused',
    },
    limitedItems,
    limitKeys,
    beginLimits,
  ],
};

export const startFencesBesidePauses = besidePauses(startFences, {
  name: 'perdure_start_beside_pauses',
  sentBy: 'pause/a-first-turn-of-a-definition-is-not-run',
  pauseCheck: {
    find: /EXISTS \(SELECT FROM \S+\.paused_definitions AS paused(?:(?!AS one\)).)+AS one\)(?= OR EXISTS)/s,
    replace: 'FALSE',
  },
  selections: [
    {
      find: /EXISTS \(SELECT FROM \S+\.limits AS lim (?:(?! AS ok| AS "hasPaused").)+(?= AS "hasPaused")/s,
      because: 'decides which statement is sent next',
    },
  ],
});

/** Task runs. Its fences are the unique id and the unique dedupe key. */
export const taskCreationFences: FencedStatement = {
  name: 'perdure_create_tasks_plainly',
  sentBy: ['task-create/the-same-task-exists', 'task-create/text-is-only-text'],
  fences: [
    {
      demands: 'a free id',
      find: /(?<=ORDER BY place )(?=\s+\), queued)/,
      replace: 'ON CONFLICT (instance_id) DO NOTHING',
      rejectedBy: 'task-create/the-same-task-exists',
    },
    {
      demands: 'a free dedupe key',
      find: /(?<=ORDER BY definition_key, dedupe_key )(?=\s+RETURNING)/,
      replace: 'ON CONFLICT (definition_key, dedupe_key) DO NOTHING',
      rejectedBy: 'task-create/text-is-only-text',
    },
  ],
  selections: [
    { find: /dedupe_key IS NOT NULL(?=\s+ORDER)/, because: 'leaves out runs without a key' },
    limitedItems,
  ],
};
