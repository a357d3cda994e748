import {
  SamplingDecision,
  TraceFlags,
  type Attributes,
  type Context,
  type Link,
  type SamplingResult,
  type SpanKind,
} from '@opentelemetry/api';

/** A sampler, as the SDK of OpenTelemetry defines it. */
export interface LinkSampler {
  shouldSample(
    context: Context,
    traceId: string,
    spanName: string,
    spanKind: SpanKind,
    attributes: Attributes,
    links: Link[],
  ): SamplingResult;
  toString(): string;
}

/**
 * Wraps the sampler of root spans: a root span with links is sampled if a linked span was. Without it, the sampler decides
 * anew for retries and for work after a minute, which start traces of their own.
 */
export function followLinks(root: LinkSampler): LinkSampler {
  return {
    shouldSample(context, traceId, spanName, spanKind, attributes, links) {
      if (links.length === 0) {
        return root.shouldSample(context, traceId, spanName, spanKind, attributes, links);
      }
      const isSampled = links.some((link) => (link.context.traceFlags & TraceFlags.SAMPLED) !== 0);
      return {
        decision: isSampled ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD,
      };
    },
    toString: () => `FollowLinks{${root.toString()}}`,
  };
}
