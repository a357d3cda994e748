import type {
  CheckedTarget,
  KeysQuery,
  LimitBackend,
  LimitKeyPage,
  LimitsInfo,
  LimitsInfoPage,
} from '../client/managing/limits.ts';
import type { AuditNote } from '../model/audit-options.ts';
import type { LimitOverride, RateLimit } from '../providers/contract/limits.ts';
import { toWireNote } from './http-management.ts';
import type { Transport } from './transport.ts';

/** Reads and changes limits over HTTP. A repeat changes nothing, so a call whose response was lost is repeated. */
export class HttpLimits implements LimitBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  list(query: Parameters<LimitBackend['list']>[0]): Promise<LimitsInfoPage> {
    return this.#transport.call('listLimits', { query });
  }

  async get({ name, ...query }: CheckedTarget): Promise<LimitsInfo | undefined> {
    const { limits } = await this.#transport.call('getLimits', { params: { name }, query });
    return limits ?? undefined;
  }

  set(
    { name, kind }: CheckedTarget,
    { global, perKey, rate }: LimitOverride,
    note: AuditNote,
  ): Promise<LimitsInfo> {
    const body = {
      kind,
      concurrency: { global, perKey },
      rate: rate == null ? rate : toWireRate(rate),
      ...toWireNote(note),
    };
    return this.#transport.call('setLimits', { params: { name }, body }, repeatable);
  }

  reset({ name, kind }: CheckedTarget, note: AuditNote): Promise<LimitsInfo> {
    const body = { kind, ...toWireNote(note) };
    return this.#transport.call('resetLimits', { params: { name }, body }, repeatable);
  }

  keys({ name, kind }: CheckedTarget, query: KeysQuery): Promise<LimitKeyPage> {
    const request = { params: { name }, query: { kind, ...query } };
    return this.#transport.call('listLimitKeys', request);
  }
}

const repeatable = { repeatable: true } as const;

function toWireRate({ limit, perMs, burst, perKey }: RateLimit) {
  return { limit, per: perMs, burst, perKey };
}
