import { provider } from '../contract/provider.ts';

export const load = (name: string): Promise<unknown> => import(name);
export const store = provider;
