import { describe, expect, it, vi } from 'vitest';
import { drive } from '../../test/replay/turn-driver.ts';
import { silentLogger, type Logger } from '../model/logger.ts';
import { currentScope } from '../replay/cancellation/scope.ts';

/** A logger that records its lines. */
function collect(): Logger & { readonly lines: unknown[][] } {
  const lines: unknown[][] = [];
  const keep = (level: string) => (fields: object, message: string) => {
    lines.push([level, fields, message, currentScope()]);
  };
  return {
    lines,
    debug: keep('debug'),
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
  };
}

describe('ctx.log', () => {
  it('adds the instance to every line, and runs the sink outside the orchestration', async () => {
    const log = collect();
    const run = drive(
      async (ctx) => {
        ctx.log.info({ step: 1 }, 'hello');
        ctx.log.error({}, 'trouble');
      },
      { log, alwaysReplay: false },
    );
    await run.start();
    const fields = { instanceId: 'instance', executionId: 1, orchestration: 'subject' };
    expect(log.lines).toEqual([
      ['info', { ...fields, step: 1 }, 'hello', undefined],
      ['error', fields, 'trouble', undefined],
    ]);
  });

  it('is silent during replay, so that each line appears once', async () => {
    const log = collect();
    const run = drive(
      async (ctx) => {
        ctx.log.info({}, 'before');
        await ctx.call('a');
        ctx.log.info({}, 'after');
      },
      { log },
    );
    await run.start();
    await run.turn(run.completed(1));
    expect(log.lines.map(([, , message]) => message)).toEqual(['before', 'after']);
  });

  it('emits a warning when the sink throws, without failing the orchestration', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const broken: Logger = {
      ...silentLogger,
      info: () => {
        throw new Error('disk full');
      },
    };
    const run = drive(
      async (ctx) => {
        ctx.log.info({}, 'line');
        return 'fine';
      },
      { log: broken },
    );
    await run.start();
    expect(run.output).toBe('fine');
    expect(warn).toHaveBeenCalledWith('A log sink failed: Error: disk full', {
      type: 'PerdureWarning',
    });
    warn.mockRestore();
  });
});
