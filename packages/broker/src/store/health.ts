// Whether the database answers at all.
import { z } from 'zod'
import { one } from './sql.ts'

export const ping = one('health.ping', z.object({ alive: z.int() }), () => `select 1 as alive`)
