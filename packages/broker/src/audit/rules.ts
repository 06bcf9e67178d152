// The actor of an audit entry. Derived from the credential of the request, never from body or path.
export interface Actor {
  readonly kind: 'admin' | 'agent' | 'generator' | 'system'
  readonly id: string | null
  readonly address: string | null
  readonly userAgent: string | null
  readonly requestId: string | null
}

export const systemActor: Actor = { kind: 'system', id: null, address: null, userAgent: null, requestId: null }
