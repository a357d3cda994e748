import { periodText } from '../../client/explaining/why-text.ts';
import type { LimitOverride } from '../../providers/contract/limits.ts';

/** Formats limits: `50 at a time, 2 per key, 100 per minute per key`. */
export function limitsText({ global, perKey, rate }: LimitOverride): string {
  const parts = [
    ...(global == null ? [] : [`${global} at a time`]),
    ...(perKey == null ? [] : [`${perKey} per key`]),
    ...(rate == null
      ? []
      : [
          `${rate.limit} per ${periodText(rate.perMs)}${rate.perKey ? ' per key' : ''}${rate.burst === 0 ? '' : ` (burst ${rate.burst})`}`,
        ]),
  ];
  return parts.length === 0 ? 'none' : parts.join(', ');
}

/** Formats the figures that an operator set. */
export function overrideText(override: LimitOverride): string {
  const removed = (['global', 'perKey', 'rate'] as const).filter((name) => override[name] === null);
  const words = { global: 'no global limit', perKey: 'no limit per key', rate: 'no rate' };
  const rest = limitsText(override);
  return [...(rest === 'none' ? [] : [rest]), ...removed.map((name) => words[name])].join(', ');
}
