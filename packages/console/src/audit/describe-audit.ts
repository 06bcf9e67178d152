// An audit entry as a sentence. Pure.
import type { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import { plainText } from '../parts/text.tsx'

/** `stack.created` with its details → `stack shop created`. */
export function describeAudit({ action, details }: Pick<AuditLog, 'action' | 'details'>): string {
  const [noun = '', ...verbs] = action.split('.')
  const detail = (name: string) => (typeof details?.[name] === 'string' ? details[name] : undefined)
  const name = detail('name') ?? detail('stack_name') ?? detail('label') ?? detail('short_token')
  const sequence = typeof details?.['sequence_id'] === 'number' ? ` ${details['sequence_id']}` : ''
  const words = verbs.join(' ').replaceAll('_', ' ')
  return plainText(`${noun.replaceAll('_', ' ')}${name === undefined ? '' : ` ${name}`}${sequence} ${words}`, 200)
}
