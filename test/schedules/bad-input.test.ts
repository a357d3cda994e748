import { expect, it } from 'vitest';
import { task, type ErrorCode } from '../../src/index.ts';
import { describeScheduled, minute } from './scheduled-store.ts';

const work = task('work', (_ctx, input: string) => input);
const starts = { task: work, input: '' };

describeScheduled('invalid input for schedules', (scheduledStore) => {
  it.each<[string, object, ErrorCode]>([
    ['an invalid cron expression', { ...starts, cron: '61 * * * *' }, 'INVALID_SCHEDULE'],
    ['a cron expression that is not a string', { ...starts, cron: 5 }, 'INVALID_INPUT'],
    ['an unknown time zone', { ...starts, cron: '* * * * *', timeZone: 'X/Y' }, 'INVALID_SCHEDULE'],
    [
      'a time zone for an interval',
      { ...starts, every: '1h', timeZone: 'UTC' },
      'INVALID_SCHEDULE',
    ],
    ['a date that never occurs', { ...starts, cron: '0 0 30 2 *' }, 'INVALID_SCHEDULE'],
    ['an end in the past', { ...starts, every: '1h', endAt: minute(-5) }, 'INVALID_SCHEDULE'],
    ['no timing', starts, 'INVALID_SCHEDULE'],
    ['two timings', { ...starts, cron: '* * * * *', every: '1h' }, 'INVALID_SCHEDULE'],
    ['an interval of 0', { ...starts, every: 0 }, 'INVALID_SCHEDULE'],
    ['a negative interval', { ...starts, every: -1 }, 'INVALID_DURATION'],
    ['no target', { every: '1h' }, 'INVALID_SCHEDULE'],
    ['two targets', { ...starts, orchestration: 'o', every: '1h' }, 'INVALID_SCHEDULE'],
    ['a flow by name', { flow: 'orders', every: '1h' }, 'INVALID_INPUT'],
    ['an unknown catchUp policy', { ...starts, every: '1h', catchUp: 'some' }, 'INVALID_INPUT'],
    ['an unknown field', { ...starts, every: '1h', zone: 'UTC' }, 'INVALID_OPTION'],
    ['an id for its runs', { ...starts, every: '1h', options: { id: 'x' } }, 'INVALID_OPTION'],
    ['an expiry of 0', { ...starts, every: '1h', options: { expiresIn: 0 } }, 'INVALID_INPUT'],
    ['a priority below 0', { ...starts, every: '1h', options: { priority: -1 } }, 'INVALID_OPTION'],
    ['input that is not serializable', { task: work, input: 1n, every: '1h' }, 'NOT_SERIALIZABLE'],
  ])('schedules.put() rejects %s and stores nothing', async (_what, schedule, code) => {
    const { open } = await scheduledStore();
    const { schedules } = (await open()).perdure.client;
    await expect(schedules.put('s', schedule as typeof starts)).rejects.toMatchObject({ code });
    expect((await schedules.list()).items).toEqual([]);
  });

  it('put() rejects invalid names; calls for an unknown schedule reject with SCHEDULE_NOT_FOUND', async () => {
    const { open } = await scheduledStore();
    const { schedules } = (await open()).perdure.client;
    for (const name of ['', 'n'.repeat(10_240), 5 as unknown as string]) {
      await expect(schedules.put(name, { ...starts, every: '1h' })).rejects.toMatchObject({
        code: 'INVALID_NAME',
      });
    }
    for (const call of [
      () => schedules.pause('nobody'),
      () => schedules.resume('nobody'),
      () => schedules.nextRuns('nobody'),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'SCHEDULE_NOT_FOUND' });
    }
    expect(await schedules.get('nobody')).toBeUndefined();
    await expect(schedules.list({ limit: 0 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('an invalid put() leaves the existing schedule unchanged', async () => {
    const { open } = await scheduledStore();
    const { schedules } = (await open()).perdure.client;
    const before = await schedules.put('s', { ...starts, every: '1h' });
    await expect(schedules.put('s', { ...starts, cron: 'never' })).rejects.toMatchObject({
      code: 'INVALID_SCHEDULE',
    });
    expect(await schedules.get('s')).toEqual(before);
  });
});
