import { provider } from '../provider.ts';

export const load = (name: string): Promise<unknown> => import(name);
export const store = provider;
