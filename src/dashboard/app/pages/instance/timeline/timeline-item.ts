import type { ResponseBody } from '../../../api/operations.ts';

export type Timeline = ResponseBody<'getTimeline'>;
/** An operation of an execution. */
export type Item = Timeline['items'][number];
/** An event that belongs to no operation, such as a cancel request. */
export type Mark = Timeline['marks'][number];
