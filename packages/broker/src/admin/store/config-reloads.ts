// Requests to reload the configuration. A trigger writes a control row of the change feed, so every broker process reloads.
import { count, type Slots } from '@brokkr/postgres'

export const insert = count(
  'config_reloads.insert',
  (p: Slots<{ id: string; requested_by: string }>) => `
  insert into config_reloads (id, requested_by) values (${p.id}::uuid, ${p.requested_by})`,
)
