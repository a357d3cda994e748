import { noteEntry } from '../../management/management-options.ts';
import type { AuditNote } from '../../model/audit-options.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { calledTask } from '../../model/task-call.ts';
import type {
  LaneRecord,
  LimitedKind,
  LimitOverride,
  LimitsRecord,
} from '../../providers/contract/limits.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import {
  parseCursor,
  toCursor,
  type CheckedTarget,
  type KeysQuery,
  type LimitBackend,
  type LimitKeyInfo,
  type LimitKeyPage,
  type LimitsInfo,
  type LimitsInfoPage,
} from './limits.ts';

const kinds: readonly LimitedKind[] = ['orchestration', 'activity', 'task'];

type Definition = Pick<LimitsRecord, 'kind' | 'name'>;

/** Reads and changes limits through the provider of this process. */
export class LocalLimits implements LimitBackend {
  readonly #provider: Provider;

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  async list({ limit, cursor }: Parameters<LimitBackend['list']>[0]): Promise<LimitsInfoPage> {
    const after = cursor === undefined ? undefined : parseCursor(cursor);
    const page = await this.#provider.listLimits({ limit, ...(after !== undefined && { after }) });
    const last = page.records.at(-1);
    return {
      items: page.records.map(toLimitsInfo),
      ...(page.more && last !== undefined && { nextCursor: toCursor(last) }),
    };
  }

  async get(target: CheckedTarget): Promise<LimitsInfo | undefined> {
    const found = await this.#find(target);
    return found && toLimitsInfo(found);
  }

  set(target: CheckedTarget, override: LimitOverride, note: AuditNote): Promise<LimitsInfo> {
    return this.#change(target, override, note);
  }

  reset(target: CheckedTarget, note: AuditNote): Promise<LimitsInfo> {
    return this.#change(target, null, note);
  }

  async keys(target: CheckedTarget, { limit, order, after }: KeysQuery): Promise<LimitKeyPage> {
    const { kind, name } = await this.#resolve(target);
    const afterKey = after !== undefined && { afterKey: after };
    const page = await this.#provider.listLanes({ kind, name, limit, order, ...afterKey });
    const last = page.records.at(-1);
    const hasNext = order === 'key' && page.more && last !== undefined;
    return {
      items: page.records.map(toKeyInfo),
      ...(hasNext && { nextAfter: last.key }),
    };
  }

  async #change(
    target: CheckedTarget,
    override: LimitOverride | null,
    note: AuditNote,
  ): Promise<LimitsInfo> {
    const { kind, name } = await this.#resolve(target);
    const shape = { definition: { kind, name }, ...(override !== null && { limits: override }) };
    const audit = noteEntry(override === null ? 'limitsReset' : 'limitsSet', note, shape);
    const record = await this.#provider.setLimits({ kind, name, override, audit });
    return toLimitsInfo(record);
  }

  async #read(only: Definition): Promise<LimitsRecord | undefined> {
    const { records } = await this.#provider.listLimits({ limit: 1, only });
    return records[0];
  }

  /** Finds the limits of a definition. Throws `INVALID_INPUT` if several kinds have the name. */
  async #find({ kind, name }: CheckedTarget): Promise<LimitsRecord | undefined> {
    if (kind !== undefined) return this.#read({ kind, name });
    const found = (await Promise.all(kinds.map((one) => this.#read({ kind: one, name })))).filter(
      (one) => one !== undefined,
    );
    if (found.length > 1) throw ambiguous(name, found);
    return found[0];
  }

  /** Finds the definition of a target. A definition without limits yet needs its kind. */
  async #resolve({ kind, name }: CheckedTarget): Promise<Definition> {
    // Calls of a task by orchestrations are counted with its runs.
    const task = kind === 'activity' ? calledTask(name) : undefined;
    if (task !== undefined) return { kind: 'task', name: task };
    if (kind !== undefined) return { kind, name };
    const found = await this.#find({ name });
    if (found !== undefined) return found;
    throw new PerdureError(
      'INVALID_INPUT',
      `No definition ${JSON.stringify(name)} has limits or keys. Check the name, or pass { kind, name } for one that has none yet.`,
    );
  }
}

function ambiguous(name: string, found: readonly Definition[]): PerdureError {
  const all = found.map(({ kind }) => kind).join(' and ');
  const { kind } = found[0] ?? { kind: 'task' };
  return new PerdureError(
    'INVALID_INPUT',
    `Several definitions are named ${JSON.stringify(name)}: ${all}. Pass the kind, too: { kind: '${kind}', name: ${JSON.stringify(name)} }.`,
  );
}

function toLimitsInfo(record: LimitsRecord): LimitsInfo {
  const { kind, name, effective, declared, declaredBy, override, running, waiting } = record;
  return {
    kind,
    name,
    effective,
    declared,
    ...(declaredBy !== null && { declaredBy }),
    ...(override !== null && { override }),
    running,
    waiting,
    ...(record.nextTokenAt !== null && { nextTokenAt: record.nextTokenAt }),
  };
}

function toKeyInfo({ key, weight, running, waiting, heldBy, nextAt }: LaneRecord): LimitKeyInfo {
  return {
    key,
    weight,
    running,
    waiting,
    ...(heldBy !== null && { heldBy }),
    ...(nextAt !== null && { nextAt }),
  };
}
