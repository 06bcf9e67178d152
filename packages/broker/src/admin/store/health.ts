// Whether the database answers at all.
import { one } from '@brokkr/postgres'
import { z } from 'zod'

export const ping = one('health.ping', z.object({ alive: z.int() }), () => `select 1 as alive`)
