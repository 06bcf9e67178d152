import { Link } from '@tanstack/react-router'

export function NotFound() {
  return (
    <div className="empty page-empty">
      <h1>No such page</h1>
      <p>The console has no page at this address.</p>
      <Link to="/" className="btn">
        Open the fleet
      </Link>
    </div>
  )
}
