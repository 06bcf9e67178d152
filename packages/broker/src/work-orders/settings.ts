// Settings of work orders. They extend the section `broker`.
import { seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

export const workOrderSettings = {
  work_order_maintenance_interval_seconds: setting(seconds, 10, {
    description: 'Maximum interval of the task that ends timed-out claims and makes due retries of work orders pending.',
    hot: true,
  }),
  work_order_log_retention_days: setting(z.number().positive().max(36_500), 365, {
    description: 'Time after which entries of the work-order log are deleted, with their output.',
    hot: true,
  }),
}
