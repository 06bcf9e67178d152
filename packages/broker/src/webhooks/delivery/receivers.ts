// Allowed receivers: public addresses, and networks and hosts that the operator allows. Checked when a subscription is created or changed,
// for early feedback; the binding check is that of every address when a message is sent.
import { ApiError } from '@brokkr/contract/errors.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import type { Allow } from '@brokkr/runtime/http-client/address.ts'
import { checkUrl } from '@brokkr/runtime/http-client/check-request.ts'
import { type Lookup, lookupAll, resolveChecked } from '@brokkr/runtime/http-client/connect.ts'

export interface Receivers {
  /** Returns the same object while the settings are equal, because a new one closes connections. */
  readonly allow: () => Allow
  /** Throws `invalid_webhook` for a disallowed address. */
  check(url: string): Promise<void>
}
/** A name that does not resolve now is accepted, because it may resolve later. */
const lookupMs = 2_000

export function createReceivers(
  settings: { cidrs: () => readonly string[]; hosts: () => readonly string[] },
  lookup: Lookup = lookupAll,
): Receivers {
  let kept: Allow = { cidrs: settings.cidrs(), hosts: settings.hosts() }
  const allow = () => {
    const [cidrs, hosts] = [settings.cidrs(), settings.hosts()]
    if (kept.cidrs !== cidrs || kept.hosts !== hosts) kept = { cidrs, hosts }
    return kept
  }
  return {
    allow,
    check: async (url) => {
      try {
        const { hostname } = checkUrl(url, allow())
        await resolveChecked(lookup, hostname.replace(/^\[|\]$/g, ''), allow(), lookupMs)
      } catch (error) {
        if (error instanceof Retryable) return
        if (error instanceof Terminal) throw new ApiError('invalid_webhook', `url: ${error.message}`, { status: 422 })
        throw error
      }
    },
  }
}
