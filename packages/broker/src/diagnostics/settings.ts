// Settings of diagnostics. They extend the section `broker`.
import { seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

export const diagnosticSettings = {
  diagnostic_cleanup_interval_seconds: setting(seconds, 900, {
    description: 'Interval of the task that ends expired diagnostic requests and deletes old ones.',
    hot: true,
  }),
  diagnostic_max_age_hours: setting(z.number().positive().max(8760), 1, {
    description: 'Time after which ended diagnostic requests are deleted, with their results.',
    hot: true,
  }),
}
