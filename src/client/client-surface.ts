import type { RetentionControl } from '../management/retention-control.ts';
import type { Client } from './client.ts';
import type { Schedules } from './managing/schedules.ts';

/** What can be seen of a class from outside, so that another class can be as good. */
type Surface<Class> = Pick<Class, keyof Class>;

/** What a client can do, whether its store is open in this process or reached over the network. */
export interface ClientSurface extends Omit<Client, 'retention' | 'schedules'> {
  /** What the workers of this store delete by themselves. */
  readonly retention: Surface<RetentionControl>;
  /** What is started at given times. */
  readonly schedules: Surface<Schedules>;
}
